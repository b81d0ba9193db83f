// Made by `npm run generate` from the .lua files beside it; do not edit.

// biome-ignore-all lint/style/useTemplate: what stands between two parts may be a line end only

import { type Call, inBatch, type Script, type ScriptCall } from './script';

const clockPart = `local KEYS,ARGV,tonumber=KEYS,ARGV,tonumber
local d,R,bk=redis.call,redis.pcall,redis.acl_check_cmd
local A,h,be,aP`;
const dispatchPart = `local cK={}
local bV,ba=0,0
while ba<#ARGV do
local M=ARGV[ba+1]
local aF=cK[M]
if not aF then
local de,bU,cP=string.match(M,'^(%a+) (%d+) (%d+)$')
aF={scripts[de],tonumber(bU),tonumber(cP)}
cK[M]=aF
end
cn(pcall(aF[1],bV,ba+1,aF[2],aF[3]))
bV,ba=bV+aF[2],ba+1+aF[3]
end`;
const holdersPart = `local w,be,aR={},{},{}
local X=16
local function bi(M)
return string.find(M,'^1 [rwp] %d+ %d+ %d+ %d+ .')~=nil
end
local function cH()
error('FOREIGN this sorted set has a member that is not of redis-exp-lock, or of another version of it',0)
end
local function L(M)
local t,ae,T,r,O,aE=string.match(M,'^1 ([rwp]) (%d+) (%d+) (%d+) (%d+) (.+)$')
if not t then
return nil
end
O=tonumber(O)
return{
b=t,
t=tonumber(ae),
w=tonumber(T),
l=tonumber(r),
e=string.sub(aE,1,O),
j=string.sub(aE,O+1),
f=M,
}
end
local function M(t,ae,T,r,l,aj)
return string.format('1 %s %.0f %.0f %.0f %d ',t,ae,T,r,#l)..l..aj
end
local function bJ(i,g)
i.b,i.j=g.b,g.j
i.k,i.s=i.k+1,i.s+g.t
end
local function bu(i,g,E)
g.n=E
i.d[g.e]=g
i.l=math.max(i.l,g.l)
bJ(i,g)
end
local function bY()
return{d={},k=0,s=0,l=0,i=true}
end
local function bt(e)
local N=be[e]
if not N then
local j=d('ZRANGE',e,0,X-1,'WITHSCORES')
N={c={},C=#j==2*X,m=false}
for b=1,#j,2 do
if not bi(j[b])then
N.m=true
elseif tonumber(j[b+1])<=h then
N.c[#N.c+1]=j[b]
end
end
if N.C then
local ag=A%d('ZCARD',e)
local cM=d('ZRANGE',e,ag,ag+X-1)
for b=1,#cM do
N.m=N.m or not bi(cM[b])
end
end
be[e]=N
end
return N
end
local function cE(e,bx)
local N=bt(e)
if N.D then
return
elseif N.m or#N.c==X then
local ai={'1 r 1 0 0 0 '}
for b=1,#N.c do
ai[b+1]=N.c[b]~=bx and N.c[b]or ai[1]
end
d('ZREM',e,unpack(ai))
else
d('ZREMRANGEBYSCORE',e,'-inf',string.format('%.0f',h))
end
N.D=true
end
local function bS(e,f)
local i=w[e]
if i and(i.i or not f)then
return i
end
i=bY()
local aA=string.format('(%.0f',h)
local j=d('ZRANGEBYSCORE',e,aA,'+inf','WITHSCORES','LIMIT',0,X)
if#j==2*X and(f or string.sub(j[1],1,3)=='1 p')then
j=d('ZRANGEBYSCORE',e,aA,'+inf','WITHSCORES')
elseif#j==2*X then
i.i=false
j=d('ZRANGE',e,'+inf',aA,'BYSCORE','REV','LIMIT',0,X,'WITHSCORES')
end
for b=1,#j,2 do
local g=L(j[b])
if g then
bu(i,g,tonumber(j[b+1]))
else
i.m=true
end
end
w[e]=i
return i
end
local function aN(e,f)
local i=bS(e,f)
if i.m or bt(e).m then
cH()
end
return i
end
local function db(e,l,aj,cS)
if w[e]then
return nil
end
local j=d('ZRANGE',e,-1,-1,'WITHSCORES')
local n=j[1]and tonumber(j[2])>h and L(j[1])
if not n or n.b~='r'or n.j~=aj or n.e==l or(cS and n.l==0)then
return nil
end
if bt(e).m then
cH()
end
local i=bY()
bu(i,n,tonumber(j[2]))
return i
end
local function cO(i,l)
if not i.d[l]then
return i
end
local ao=bY()
ao.i,ao.m=i.i,i.m
for ap,g in pairs(i.d)do
if ap~=l then
bu(ao,g,g.n)
end
end
return ao
end
local function dl(i,bl)
for dg in string.gmatch(bl,'%d+')do
for aQ,g in pairs(i.d)do
if string.find(g.j,','..dg..',',1,true)then
return true
end
end
end
return false
end
local function cv(e,l)
local i=w[e]
w[e]=i and i.i and cO(i,l)or nil
end
local function cq(K)
if aR[K]==nil then
aR[K]=d('GET',K)or false
end
return aR[K]
end
local function aW(e)
local n=d('ZRANGE',e,-1,-1,'WITHSCORES')
if not n[1]or not bi(n[1])then
return
end
if n[2]=='inf'then
d('PERSIST',e)
else
local F=math.max(tonumber(n[2])-h,1)
if not bt(e).m or d('PTTL',e)<F then
d('PEXPIRE',e,string.format('%.0f',F))
end
end
end`;
const mintPart = `local function Y()
if not h then
local Q=d('TIME')
A=Q[1]*1000000+Q[2]
h=math.floor(A/1000)
end
end
local function bK(M)
local F=tonumber(M)
if not F or F<1 or F>9007199254740991 or not string.find(M,'^%d+$')then
error('ERR expected a lifetime in whole milliseconds, at least 1',0)
end
end
local function by(e,z)
if bk and not bk('PEXPIRE',e,z)then
error('NOPERM this user has no permissions to run PEXPIRE on a lock',0)
end
end
local function bd(r)
if not r or r>9007199254740991 or r>A+86400000000 then
error('FENCE the fence counter of this server is no number, or more than a day ahead of the clock',0)
end
return r
end
local function aS(r)
if not aP then
local n=d('GET',r)
aP=n and bd(string.find(n,'^%d+$')and tonumber(n))or 0
end
return aP
end
local function ce(r,n)
d('SET',r,string.format('%.0f',n))
aP=n
end
local function bz(r,y,B)
if y==0 then
return 0
end
local o=math.max(aS(r)+1,A,B or 0)
ce(r,o+y-1)
return o
end
local function cf(e,l,z)
d('SETNX',e,l)
local cJ=R('PEXPIRE',e,z)
if type(cJ)=='table'then
d('DEL',e)
error(cJ.err,0)
end
end`;
const queuePart = `local ar,bB=10000,1000
local function cr(c,L)
local aY=string.match(L,'^(%d+) ')
if aY and aY~='1'then
if d('PTTL',c)<0 then
d('PEXPIRE',c,ar)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock',0)
end
return aY
end
local function bf(c,L)
local Z,aa,D,J,aq,l=
string.match(cr(c,L)and L or'','^1 (%d+) (%S+) (%d+) (%d+) (%S+) (.+)$')
Z,J=tonumber(Z),tonumber(J)
if not Z or Z<h or Z>h+ar or J>1024 then
return nil
end
local F=tonumber(D)
if F>=1 and F<=9007199254740991 then
return aa,D,J,aq,l
end
end
local function ct(c,l,x)
local j
if x>0 then
j=d('ZRANGEBYSCORE',c,x,x,'WITHSCORES')
else
j=d('ZRANGE',c,'+inf',0,'BYSCORE','REV','LIMIT',0,256,'WITHSCORES')
end
local m={}
for b=1,#j,2 do
if cr(c,j[b])and string.match(j[b],'^1 %d+ %S+ %d+ %d+ %S+ (.+)$')==l then
m[#m+1]=j[b]
x=tonumber(j[b+1])
end
end
return m,x
end
local function bM(c,l,D,J,aq,aa,x,ab)
local cd=A+86400000000
local p=tonumber(x)
local m
m,p=ct(c,l,p<=cd and p or 0)
for b=1,#m do
d('ZREM',c,m[b])
end
if p<=0 or p>cd then
local n=d('ZRANGE',c,-1,-1,'WITHSCORES')
while n[1]and tonumber(n[2])>cd do
d('ZREM',c,n[1])
n=d('ZRANGE',c,-1,-1,'WITHSCORES')
end
p=math.max(A,(tonumber(n[2])or 0)+1)
end
local ag=string.format('%.0f',p)
local ah=d('ZCOUNT',c,0,'('..ag)
local F=math.max(2*math.min(math.max(1000,125*(ah+1)),2000),math.min(ab,ar))
local Z=string.format('%.0f',h+F)
d('ZADD',c,ag,table.concat({'1',Z,aa,D,J,aq,l},' '))
d('PEXPIRE',c,ar)
return p,ah
end
local function cD(L,p)
local W,U=string.match(L,'^poll (%d+) (%d+)$')
W,U=tonumber(W),tonumber(U)
if W and W<=h and U>=h and U<=h+ar and-p<=bB then
return-p,W,U
end
end
local function dc(c,P)
P=math.ceil(P)
if P>bB or d('ZCARD',c)==0 then
return
end
local W,U=h,h+2*P+100
local j=d('ZRANGEBYSCORE',c,'-inf','(0','WITHSCORES')
for b=1,#j,2 do
local aM,o,n=nil,nil,nil
if string.sub(j[b],1,5)=='poll 'then
aM,o,n=cD(j[b],tonumber(j[b+1]))
end
if aM then
W=math.min(W,o)
if aM>P then
P,U=aM,n
end
end
end
local aB=string.format('poll %.0f %.0f',W,U)
R('ZADD',c,string.format('-%.0f',math.max(P,1)),aB)
for b=1,#j,2 do
if string.sub(j[b],1,5)=='poll 'and j[b]~=aB then
R('ZREM',c,j[b])
end
end
end
local function cU(c)
local o,aJ,U,P,W,aB=nil,0,0,0,h,nil
local ai,aA={},0
repeat
local j=d('ZRANGE',c,aA,aA+32,'WITHSCORES')
for b=1,#j,2 do
local L,p=j[b],tonumber(j[b+1])
if p>=0 then
o=bf(c,L)and L
if o then
break
end
ai[#ai+1]=L
elseif L=='passes'then
aJ=p>=-1000000 and-p or 0
U=aJ==0 and-p<=h+2*bB and-p or 0
else
local aM,cQ=cD(L,p)
if aM then
P,W,aB=aM,cQ,L
else
ai[#ai+1]=L
end
end
end
aA=aA+33
until o or#j<66 or#ai>=2048
if#ai>0 then
d('ZREM',c,unpack(ai))
end
return o,aJ,U,P,W,aB
end
local function bv(e,r,c,m,bI,cw)
local o,aJ,U,P,W,aB=cU(c)
if not o then
if d('ZCOUNT',c,0,'+inf')==0 then
d('DEL',c)
end
return'none'
end
if U>h then
return'yielding',U
end
local aa,D,J,aq,l=bf(c,o)
local ck=math.max(math.min(bI,bB),P>0 and P+20 or 0)
if cw and bI>0 and(aJ>=64 or(P>0 and h-W>=8*ck))then
d('ZADD',c,string.format('-%.0f',h+ck),'passes')
if aB then
d('ZREM',c,aB)
end
if l~=m then
R('PUBLISH',aq,aa..' '..e)
end
return'yielding',h+ck
end
local z=l==m and D or string.format('%.0f',math.min(tonumber(D),2000))
by(e,z)
if J>0 then
aS(r)
end
if cw then
d('ZADD',c,-(aJ+1),'passes')
elseif aJ+U>0 then
d('ZREM',c,'passes')
end
d('ZREM',c,o)
local al=bz(r,J)
cf(e,l,z)
if l==m then
return'mine',al
end
R('PUBLISH',aq,aa..'='..string.format('%.0f',al)..' '..e)
return'given'
end
local function bi(l)
return#l>=36 and string.sub(l,-4)==string.sub(l,-36,-33)
end
local function ac(e,c,l,D,J,aq,aa,x,ab,v)
local s=d('GET',e)
local p,ah=bM(c,l,D,J,aq,aa,x,ab)
return{0,v or d('PTTL',e),p,h,ah,s and not bi(s)and 1 or 0}
end`;
const replyPart = `local C,af={},0
local function cn(cb,ac)
if type(ac)=='number'then
ac={ac}
end
if cb and not ac.err then
local y=#ac
C[af+1]=y
for b=1,y do
C[af+1+b]=ac[b]
end
af=af+1+y
else
C[af+1]=-1
C[af+2]=type(ac)=='table'and ac.err or ac
af=af+2
end
end`;
const waitersPart = `local cF,aG={},{}
local ar,bA=10000,32
local ax,di={1e15,5e14,0},500000
local function co(t,aw)
if t=='u'or(t=='r'and aw=='r')then
return 1
end
return t=='w'and aw=='w'and 2 or 3
end
local bF=1
local function bp(g,x)
return g.b=='u'and bF or x-ax[g.g]
end
local function bf(c,j,p)
local aY=string.match(j,'^(%d+) ')
if aY and aY~='2'then
if d('PTTL',c)<0 then
d('PEXPIRE',c,ar)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock',0)
end
local Z,aa,t,ae,aw,aq,O,aE=
string.match(j,'^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.+)$')
Z,O=tonumber(Z),tonumber(O)
if not Z or Z<h or Z>h+ar or O<1 or O>#aE then
return nil
end
local g={
b=t,
g=co(t,aw),
t=tonumber(ae),
F=aw,
p=aq,
y=aa,
e=string.sub(aE,1,O),
j=string.sub(aE,O+1),
f=j,
}
g.a=t=='u'and bF or p+ax[g.g]
return g.a<=A+86400000000 and g or nil
end
local function cs(u)
local bj=u>1 and string.format('%.0f',A-(ax[u-1]+ax[u])/2)or'0'
local bR=u<3 and string.format('(%.0f',A-(ax[u]+ax[u+1])/2)or'+inf'
return bj,bR
end
local function cG(c,f,j)
for b=1,#j,2 do
local p=tonumber(j[b+1])
local g=p>=0 and bf(c,j[b],p)
f.o=f.o-(p<0 and 1 or 0)
if j[b]=='phase'and-p<=A then
f.v=-p
elseif j[b]=='told'then
f.q=-p
elseif g then
local ak=f[g.g].h
ak[#ak+1]=g
f[g.g].z=p
f.d[g.e]=f.d[g.e]or g
elseif p>=0 then
f.c[#f.c+1]=j[b]
end
end
end
local function bE(c)
local f=cF[c]
if f then
return f
end
f={v=0,q=0,r=0,d={},c={}}
for u=1,3 do
local bj,bR=cs(u)
f[u]={h={},A=bj,x=bR}
end
f.o=d('ZCARD',c)
f.i=f.o<=X+2
local j=f.o==0 and{}
or d('ZRANGEBYSCORE',c,'-inf',f.i and'+inf'or'(0','WITHSCORES','LIMIT',0,X+2)
cG(c,f,j)
for u=1,3 do
f[u].u=not f.i
end
cF[c]=f
return f
end
local function ag(c,f,u,G)
local I=f[u]
while G>#I.h and I.u and#f.c<2048 do
local y=G==1 and math.min(X,3)or X
local j=d('ZRANGEBYSCORE',c,I.A,I.x,'WITHSCORES','LIMIT',0,y)
I.u=#j==2*y
if#j>0 then
I.A='('..j[#j]
end
cG(c,f,j)
end
return I.h[G]
end
local function cu(c,f,l,x,bC)
local g=f.d[l]
for u=bC or 1,(g or f.i or x==0)and 0 or bC or 3 do
local j
if x>0 then
local p=x==bF and x or x-ax[u]
j=d('ZRANGEBYSCORE',c,p,p,'WITHSCORES')
else
j=d('ZRANGE',c,f[u].x,'0','BYSCORE','REV','LIMIT',0,4*X,'WITHSCORES')
end
for b=1,#j,2 do
local ca=string.find(j[b],l,1,true)and bf(c,j[b],tonumber(j[b+1]))
g=ca and ca.e==l and ca or g
end
end
return g
end
local function dm(f)
return f.o-#f.c
end
local function df(c,f,q)
local n=f.i and 0 or f.r
for u=1,3 do
local ak=f[u].h
n=math.max(n,ak[#ak]and ak[#ak].a or 0)
end
local I=f[q.g]
if not f.i and not I.r then
local j=d('ZRANGE',c,I.x,'0','BYSCORE','REV','LIMIT',0,1,'WITHSCORES')
local x=(tonumber(j[2])or 0)+ax[q.g]
I.r=x<=A+86400000000 and x or 0
end
n=math.max(n,I.r or 0)
return math.max(A,n+1)
end
local function dh(c,f,q)
local p=bp(q,q.a)
if not f.i then
return d('ZCOUNT',c,0,string.format('(%.0f',p))
end
local ah=0
for u=1,q.g do
for aQ,g in ipairs(f[u].h)do
if g.e~=q.e and bp(g,g.a)<p then
ah=ah+1
end
end
end
return ah
end
local function cV(f,g)
local I,p=f[g.g],bp(g,g.a)
f.r=math.max(f.r,g.a)
if I.u and not(I.z and p<=I.z)then
return
end
local G=#I.h+1
while G>1 and I.h[G-1].a>g.a do
G=G-1
end
table.insert(I.h,G,g)
f.d[g.e]=g
end
local function aT(c,f,g)
if g or#f.c>0 then
f.o=f.o-d('ZREM',c,g and g.f or f.c[1],unpack(f.c))
f.c={}
end
if g then
local ak=f[g.g].h
for G=1,#ak do
if ak[G]==g then
table.remove(ak,G)
break
end
end
f.d[g.e]=nil
end
end
local function cz(c,f)
if f.i and#f[1].h+#f[2].h+#f[3].h==0 then
d('DEL',c)
f.v,f.q=0,0
return true
end
end`;
const wakePart = `local function cC(c,f,ad,q)
local bw={}
for u=1,3 do
local g=ag(c,f,u,ad[u])
while g and q and g.e==q.e do
ad[u]=ad[u]+1
g=ag(c,f,u,ad[u])
end
if q and q.g==u and not ad.B and(not g or q.a<g.a)then
g=q
end
bw[u]=g
end
local bn,o,bD=bw[1],bw[2],bw[3]
if bD and(not o or(bD.a<=f.v and bD.a<o.a))then
o=bD
end
local da=bn and o and(o.a>bn.a or A-o.a<=di)
if bn and(not o or da or bn.b=='u')then
o=bn
end
if o and o==q then
ad.B=true
elseif o then
ad[o.g]=ad[o.g]+1
end
return o
end
local function cI(i)
local bC=i.k==1 and next(i.d)or nil
return{k=i.k,b=i.b,j=i.j,s=i.s,E=bC}
end
local function cm(i,g,K)
if g.b=='p'then
return i.s+g.t<=K
elseif g.b=='r'then
return i.k==0 or(i.b=='r'and i.j==g.j)
elseif g.b=='u'and i.k==1 and i.E==g.e then
return true
end
return i.k==0
end
local function cB(c,f,i,q,au)
local bo,ad=cI(i),{1,1,1}
local o,I,p=ag(c,f,q.g,1),f[q.g],bp(q,q.a)
if o and I.u and p>I.z then
local bj=cs(q.g)
if d('ZCOUNT',c,bj,string.format('(%.0f',p))-#f.c>=bA then
return false
end
end
for aQ=1,bA do
local g=cC(c,f,ad,q)
if not g or not cm(bo,g,au)then
return false
elseif g==q then
return true
end
bJ(bo,g)
end
return false
end
local function bH(e,c,K)
local f=bE(c)
aT(c,f)
if not cz(c,f)and not aG[e]then
aG[e]=true
aG[#aG+1]={e,c,K}
end
end
local function dn(e,c,K)
local f,ad=bE(c),{1,1,1}
local bo=cI(aN(e))
local au=tonumber(d('GET',K)or 0)or 0
local aK,bc,n={},{},0
for G=1,bA do
local g=cC(c,f,ad)
if not g or not cm(bo,g,au)then
break
end
bJ(bo,g)
n=G==bA and g.a or 0
if g.p~='-'then
if not aK[g.p]then
bc[#bc+1]=g.p
aK[g.p]={}
end
table.insert(aK[g.p],g.y)
end
end
for b=1,#bc do
redis.pcall('PUBLISH',bc[b],table.concat(aK[bc[b]],',')..' '..e)
end
if n>0 then
d('ZADD',c,string.format('-%.0f',n),'told')
elseif f.q>0 then
d('ZREM',c,'told')
end
f.q=n
end`;
const acquireOnce1Part = `local l,z,V,J=ARGV[1],ARGV[2],tonumber(ARGV[3]),tonumber(ARGV[4])
local bg,bZ=tonumber(ARGV[5]),tonumber(ARGV[6])
bK(z)
if l==''or not V or not J or not bg or bg<1 or not bZ then
return redis.error_reply('ERR expected a token, a moment, how many fences, and a slot')
end
Y()
if h>V then
return{-1,0,0,h}
end
local e,r,c,cL=KEYS[1],KEYS[2],KEYS[3],KEYS[4]
local s=d('GET',e)
local ch=math.floor((h-bZ)/bg)*bg+bZ
local bL=tonumber(d('GET',cL)or'')
if s~=l and bL and bL>=ch and bL<=h+86400000 then
return{-4,0,0,h}
end
if s and s~=l then
return{0,d('PTTL',e),0,h}
end
if not s and d('ZCARD',c)>0 and bv(e,r,c,false,0,false)=='given'then
return{0,d('PTTL',e),0,h}
end
by(e,z)
local al=s and J>0 and aS(r)or 0
if al==0 then
al=bz(r,J)
end
if ARGV[7]=='1'then
d('SET',cL,string.format('%.0f',ch),'PX',string.format('%.0f',ch+bg-h))
end
if not s then
cf(e,l,z)
else
d('PEXPIRE',e,string.format('%.0f',math.max(d('PTTL',e),tonumber(z))))
end
return{1,al,0,h}`;
const acquire1Part = `local l,z,y,V=ARGV[1],ARGV[2],tonumber(ARGV[4]),tonumber(ARGV[3])
if z~=be then
local F=tonumber(z)
if not F or F<1 or F>9007199254740991 or not string.find(z,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
be=z
end
if l==''or not V or not y or y%1~=0 or y<0 or y>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local Q=d('TIME')
A=Q[1]*1000000+Q[2]
h=math.floor(A/1000)
end
if h>V then
return{-1,0,0,h}
end
if#KEYS==3 and y<=1 and bk and R('EXISTS',KEYS[1],KEYS[2])==0 then
local r=0
if y==1 then
local n=aP or d('GET',KEYS[3])or'0'
local B=(#ARGV==5 or#ARGV==6)and tonumber(ARGV[5])or 0
r=(aP or string.find(n,'^%d+$'))and math.max(n+1,A,B)
end
if r and r<=A+86400000000 and bk('PEXPIRE',KEYS[1],z)then
if y==1 then
d('SET',KEYS[3],string.format('%.0f',r))
aP=r
end
d('SETNX',KEYS[1],l)
d('PEXPIRE',KEYS[1],z)
return(r==A or y==0)and A or{1,r,0,h}
end
end`;
const acquire2Part = `local w,r,aC=(#KEYS-1)/2,KEYS[#KEYS],#ARGV>6
local ab=#ARGV>7 and tonumber(ARGV[8])or 0
local bh,av,v,bb={},{},0,false
for b=1,w do
local s=d('GET',KEYS[b])
if not s then
bh[b]=true
else
local F=d('PTTL',KEYS[b])
if s~=l then
bb=true
v=(F<0 or v<0)and-1 or math.max(v,F)
elseif F>=0 then
av[b]=math.max(F,tonumber(z))
end
end
end
local n=not bb and y>0 and aS(r)or 0
for b=1,bb and 0 or w do
local e,c=KEYS[b],KEYS[w+b]
if bh[b]and d('ZCARD',c)>0 then
if aC then
bM(c,l,z,ARGV[4],ARGV[5],ARGV[6],ARGV[7],ab)
end
local ap,aX=bv(e,r,c,aC and l,0,false)
if ap=='mine'then
return{1,aX,d('ZCOUNT',c,0,'+inf'),h}
end
if ap=='given'or aC then
bb=true
v=ap=='given'and d('PTTL',e)or ap=='yielding'and aX-h or 0
break
end
end
end
if bb then
if aC then
return ac(KEYS[1],KEYS[2],l,z,ARGV[4],ARGV[5],ARGV[6],ARGV[7],ab,v)
end
local P=#ARGV==6 and tonumber(ARGV[6])or 0
for b=1,P>0 and w or 0 do
dc(KEYS[w+b],P)
end
return{0,v,0,h}
end
for b=1,w do
if bh[b]then
by(KEYS[b],z)
end
end
local B=(#ARGV==5 or#ARGV==6)and bd(tonumber(ARGV[5]))or 0
local o=next(bh)==nil and y>0 and n>0 and n-y+1 or bz(r,y,B)
for b=1,w do
if bh[b]then
cf(KEYS[b],l,z)
elseif av[b]then
d('PEXPIRE',KEYS[b],string.format('%.0f',av[b]))
end
end
return{1,o,aC and d('ZCOUNT',KEYS[2],0,'+inf')or 0,h}`;
const extend1Part = `local D,bN=tonumber(ARGV[2]),ARGV[3]=='1'
if not D or D%1~=0 or D<0 or D>9007199254740991 then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')
end
local Q=redis.call('TIME')
local h=Q[1]*1000+math.floor(Q[2]/1000)
local aO,aL=1,{}
for b=1,#KEYS do
local s=redis.pcall('GET',KEYS[b])
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
elseif not s then
aO=math.min(aO,0)
elseif s~=ARGV[1]then
aO=-1
else
local v=redis.call('PTTL',KEYS[b])
aL[b]=bN or(v>=0 and(D==0 or v<D))
end
end
if aO==1 and h>tonumber(ARGV[4])then
aO=-2
end
if aO==1 then
for b=1,#KEYS do
if aL[b]and D==0 then
redis.call('PERSIST',KEYS[b])
elseif aL[b]then
redis.call('PEXPIRE',KEYS[b],string.format('%.0f',D))
end
end
end
return{aO,h}`;
const markSlot2Part = `local v=tonumber(ARGV[3])
Y()
if not v or v<=h or d('GET',KEYS[1])~=ARGV[1]then
return{0}
end
d('SET',KEYS[2],ARGV[2],'PX',string.format('%.0f',v-h))
return{1}`;
const proclaim1Part = `if redis.call('GET',KEYS[1])~=ARGV[1]then
return{0}
end
if ARGV[2]==''then
redis.call('DEL',KEYS[2])
else
redis.call('SET',KEYS[2],ARGV[2],'PX',ARGV[3])
end
redis.pcall('PUBLISH',ARGV[4],ARGV[5])
return{1}`;
const raise2Part = `local B=tonumber(ARGV[2])
if not B or B%1~=0 or B<0 or B>9007199254740991 then
return redis.error_reply('ERR expected a fence')
end
Y()
bd(B)
for b=1,#KEYS-1 do
if d('GET',KEYS[b])~=ARGV[1]then
return{0}
end
end
if aS(KEYS[#KEYS])<B then
ce(KEYS[#KEYS],B)
end
return{1}`;
const release1Part = `local l,x,w=ARGV[1],ARGV[2],(#KEYS-1)/2
local o=R('GET',KEYS[1])
local O=R('ZCARD',KEYS[w+1])
if o==l and O==0 and w==1 and#ARGV==3 then
d('DEL',KEYS[1])
return{1}
end
local C,bP={},false
for b=1,w do
local s=b==1 and o
if b>1 then
s=R('GET',KEYS[b])
O=R('ZCARD',KEYS[w+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bP=bP or O~=0
end
for b=1,w do
if C[b]==1 then
d('DEL',KEYS[b])
end
end
if not bP and#ARGV==3 then
return C
end`;
const release2Part = `local function bO(e,c,cN)
Y()
if x~='0'then
local m=ct(c,l,tonumber(x))
for b=1,#m do
d('ZREM',c,m[b])
end
end
local next=#ARGV>3 and ARGV[4]
local ab=#ARGV>9 and tonumber(ARGV[10])or 0
if next then
bK(ARGV[5])
bM(c,next,ARGV[5],ARGV[6],ARGV[7],ARGV[8],ARGV[9],ab)
end
local ap,aX
if cN>=0 then
ap,aX=bv(e,KEYS[#KEYS],c,next,tonumber(ARGV[3]),cN==1)
end
if ap=='mine'then
return{1,aX,d('ZCOUNT',c,0,'+inf'),h}
elseif next then
local v=ap=='yielding'and aX-h or ap=='none'and 0 or nil
return ac(e,c,next,ARGV[5],ARGV[6],ARGV[7],ARGV[8],ARGV[9],ab,v)
end
end
for b=1,w do
local cb,bs=pcall(bO,KEYS[b],KEYS[w+b],C[b])
if#ARGV>3 then
bs=cb and bs or{0,0,0,0,0,0}
for G=1,#bs do
C[#C+1]=bs[G]
end
end
end
return C`;

const acquireOnceScript: Script = {
  name: 'acquireOnce',
  sha: '222884284d7e515046b922a7f9654f2fa221bbf5',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
` +
    acquireOnce1Part,
};

/**
 * take a lock for a job that runs once a slot, unless it has run in the slot that it is by this clock.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for any lock
 * @param queue sorted set: the queue of the lock
 * @param slot string: when the slot began, in ms of the epoch, whose job has run; ends with that slot
 * @param token of the caller; a lock that holds it already is ours, and this is a resend
 * @param lifetime ms until the server frees the lock by itself
 * @param notAfter server time in ms after which nobody waits for this request any more
 * @param fences 1: mint a fence; 0: none
 * @param every how long a slot is, in ms
 * @param offset ms of the epoch at which some slot begins
 * @param marks 1: the slot counts as done from now on; 0: not before its job is
 * @returns the call; its reply: [1 granted, fence, 0, server time in ms | 0 busy, ms that another has left (-1: it never ends), 0, server time | -1 too late, 0, 0, server time | -4 done, 0, 0, server time]
 */
export function acquireOnce(
  lock: string,
  fence: string,
  queue: string,
  slot: string,
  token: string | number,
  lifetime: string | number,
  notAfter: string | number,
  fences: string | number,
  every: string | number,
  offset: string | number,
  marks: string | number,
): ScriptCall {
  return {
    script: acquireOnceScript,
    keys: [lock, fence, queue, slot],
    args: [
      String(token),
      String(lifetime),
      String(notAfter),
      String(fences),
      String(every),
      String(offset),
      String(marks),
    ],
  };
}

const acquireSharedScript = {
  name: 'acquireShared',
};

/**
 * become one of a lock's holders where its holders and its queue leave room; or be queued; or change in place.
 *
 * @param lock sorted set: one member for each holder
 * @param fence string: the last fence minted for any lock
 * @param queue sorted set: the queue of the lock
 * @param limit string: how many permits the lock has
 * @param token the caller's; a member with it is ours, and this is a resend
 * @param lifetime ms until our member ends by itself
 * @param notAfter server time in ms after which this request must change nothing
 * @param fences how many fences to mint; more than one for permits that are handed off; 0: none
 * @param kind r to read, w to write, p for permits
 * @param prefer w writers go first, r readers do, f in order of arrival
 * @param permits how many we want
 * @param most how many there are
 * @param step 0: a new holder; else the number of this change of a holder: r downgrades, w upgrades
 * @param group readers of one group share; of permits on a quorum the places that are wanted: ",0,3,"
 * @param place of a caller to be queued when there is no room: channel, id, ticket (0: it has none yet, -1: none that is known), ms after which it expires without a sign (0: by its position); for one of a quorum (channel: empty if it is not to be queued) also the token of its entry, which stays the same while each attempt has a token of its own, and the least that its fence may be; or of a reader that has shared a member: that member alone, beside which there is room for its own
 * @returns the call; its reply: [1 granted, fence, others queued (of a reader: that cannot read beside it, as far as is known), server time in ms | 0 no room, ms until there may be some (-1: unknown), ticket, server time, its position, 0 | -1 too late, 0, 0, server time | -2 another reader is upgrading, 0, 0, server time | -3 the holder that should change is gone, 0, 0, server time]
 */
export function acquireShared(
  lock: string,
  fence: string,
  queue: string,
  limit: string,
  token: string | number,
  lifetime: string | number,
  notAfter: string | number,
  fences: string | number,
  kind: string | number,
  prefer: string | number,
  permits: string | number,
  most: string | number,
  step: string | number,
  group: string | number,
  place: readonly string[],
): Call {
  return {
    script: acquireSharedScript,
    keys: [lock, fence, queue, limit],
    args: [
      String(token),
      String(lifetime),
      String(notAfter),
      String(fences),
      String(kind),
      String(prefer),
      String(permits),
      String(most),
      String(step),
      String(group),
      ...place,
    ],
  };
}

const acquireScript: Script = {
  name: 'acquire',
  sha: '6b9107cc9d32445f0d82f410b247087366ce2043',
  lua:
    clockPart +
    `
` +
    acquire1Part +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
` +
    acquire2Part,
};

/**
 * take every lock or none, for one lifetime, under one fence; or be queued.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock in the same place
 * @param fence string: the last fence minted for any lock
 * @param token the caller's; a lock that holds it already is ours, and this is a resend
 * @param lifetime ms until the server frees the locks by itself
 * @param notAfter server time in ms after which this request must change nothing
 * @param fences how many fences to mint: 0 none; more than 1 for a queue that hands the lock off by itself
 * @param place of a process to be queued when it is busy (one lock): channel, id, ticket (0: it has none yet), and perhaps how
 * @returns the call; its reply: the fence, where that is the server's time in us, of one lock that was free | [1 granted, first fence, others queued, server time in ms | 0 busy, ms that others have left (-1: they never end), ticket, server time; of a queued process also its position, and 1 when the holder wakes nobody | -1 too late, 0, 0, server time]
 */
export function acquire(
  lock: readonly string[],
  queue: readonly string[],
  fence: string,
  token: string | number,
  lifetime: string | number,
  notAfter: string | number,
  fences: string | number,
  place: readonly string[],
): ScriptCall {
  return {
    script: acquireScript,
    keys: [...lock, ...queue, fence],
    args: [String(token), String(lifetime), String(notAfter), String(fences), ...place],
  };
}

const batchSharedScript: Script = {
  name: 'batchShared',
  sha: '2d3226416751868323225ae2bdcd00cefa5af3d2',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    holdersPart +
    `
` +
    waitersPart +
    `
` +
    wakePart +
    `
local scripts={
acquireShared=function(k,a,kn,an)
local l,J,t,aw,aj=ARGV[a+1],ARGV[a+4]~='0',ARGV[a+5],ARGV[a+6],ARGV[a+10]
local V,ae,au,T=tonumber(ARGV[a+3]),tonumber(ARGV[a+7]),tonumber(ARGV[a+8]),tonumber(ARGV[a+9])
local aC=an>11 and ARGV[a+11]~=''
local bm,B=l,0
if an>14 then
bm,B=ARGV[a+15],tonumber(ARGV[a+16])
end
bK(ARGV[a+2])
local z=tonumber(ARGV[a+2])
local cT=ae and au and T and ae>=1 and ae%1==0 and string.find('rwp',t,1,true)
if l==''or not V or not cT then
return redis.error_reply('ERR expected a token, a time, a kind, permits and a step')
end
Y()
if h>V then
return{-1,0,0,h}
end
bd(B)
local e,r,c,K=KEYS[k+1],KEYS[k+2],KEYS[k+3],KEYS[k+4]
local f=bE(c)
local br=T>0 and t=='w'
local u=co(br and'u'or t,aw)
local x=aC and tonumber(ARGV[a+13])or 0
local H=cu(c,f,bm,x,u)
x=x>ax[1]and x<=A+86400000000 and x or 0
local ao=dm(f)-(H and 1 or 0)
local q={b=br and'u'or t,t=ae,F=aw,e=bm,j=aj}
q.g=u
q.a=br and bF or H and H.b~='u'and H.a or x
if q.a==0 then
q.a=df(c,f,q)
end
local aZ=ao
if t=='r'and ao>0 and f.i then
for u=1,3 do
for aQ,g in ipairs(f[u].h)do
local cW=g.b=='r'and g.j==aj and g~=H
aZ=aZ-(cW and 1 or 0)
end
end
end
local aI,m,i,S=false,nil,nil,0
local cy=T>0 or(t~='p'and cq(K)==l)
if t=='r'and not cy and#f.c==0 and(not H or H.b=='r')then
i=db(e,l,aj,J)
aI=i and cB(c,f,i,q,au)
end
by(e,ARGV[a+2])
local E=h+z
local p=string.format('%.0f',E)
if not aI then
local at=aN(e,cy)
if t=='r'and J and at.l==0 then
at=aN(e,true)
end
m,i=at.d[l],cO(at,l)
if not m and not at.i and t=='r'then
local av=M('r',1,0,J and at.l or 0,l,aj)
local bW=tonumber(d('ZSCORE',e,av))
m=bW and bW>h and L(av)
if m then
m.n=bW
end
end
if T>0 and not m then
return{-3,0,0,h}
elseif T>0 and m.w>T then
return{-1,0,0,h}
end
if at.b and(at.b=='p')~=(t=='p')then
return redis.error_reply('WRONGTYPE this key is '..(t=='p'and'a readers-writer lock'or'a semaphore'))
end
S=t=='p'and tonumber(d('GET',K)or 0)or 0
local bT=at.k>0
ag(c,f,3,1)
for b=1,#f[3].h do
bT=bT or f[3].h[b].b=='p'
end
if bT and S~=0 and S~=au then
return redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f',S,au))
end
local o=br and m.w<T and ag(c,f,1,1)
if o and o.b=='u'and o.e~=l then
return{-2,0,0,h}
end
E=math.max(E,m and m.n or 0)
p=E==math.huge and'+inf'or string.format('%.0f',E)
if m and(T==0 or m.w==T)then
d('ZADD',e,p,m.f)
m.n=E
aT(c,f,H)
aW(e)
return{1,m.l,aZ,h}
end
if T>0 and t=='r'then
w[e]=nil
d('ZREM',e,m.f)
d('ZADD',e,p,M('r',1,T,m.l,l,m.j))
d('SET',K,l,'PX',60000)
aR[K]=l
aT(c,f,H)
aW(e)
bH(e,c,K)
return{1,m.l,aZ,h}
end
aI=i.k==0
if not br then
aI=not(t=='p'and dl(i,aj))and cB(c,f,i,q,au)
end
local cp=an==11 and string.find(ARGV[a+11],'^1 r')and tonumber(d('ZSCORE',e,ARGV[a+11]))
aI=aI or cp and cp>h
end
if aI then
local al=J and t=='r'and i.l or 0
if J and al==0 then
al=bz(r,t=='p'and tonumber(ARGV[a+4])or 1,B)
end
local bX=L(M(t,ae,T,al,l,aj))
d('ZADD',e,'GT',p,bX.f)
if m then
d('ZREM',e,m.f)
w[e]=nil
elseif w[e]then
bu(w[e],bX,E)
end
aW(e)
cE(e,bX.f)
if t=='p'then
local n=d('PTTL',e)
d('SET',K,ARGV[a+8],'PX',string.format('%.0f',math.max(n,0)+3600000))
if n<0 then
d('PERSIST',K)
end
end
local cx=#f.c>0
local cY=H and f.q>0 and H.a>=f.q
aT(c,f,H)
if t=='w'and ao>0 then
d('ZREMRANGEBYSCORE',c,'-inf','(0')
d('ZADD',c,string.format('-%.0f',A),'phase')
f.v,f.q=A,0
elseif H or cx then
cz(c,f)
end
if cx or cY then
bH(e,c,K)
end
return{1,al,aZ,h}
end
local v=0
for aQ,g in pairs(i.d)do
if v==0 or(t=='p')==(g.n-h<v)then
v=g.n-h
end
end
if v==math.huge then
v=-1
end
if not aC then
return{0,v,q.a,h,0,0}
end
local cZ=not H and x==0 and u==3
local ah=cZ and ao or dh(c,f,q)
local ab=tonumber(ARGV[a+14])
if ab==0 then
ab=2*math.min(math.max(1000,125*(ah+1)),2000)
end
q.p,q.y=ARGV[a+11],ARGV[a+12]
q.f=string.format(
'2 %.0f %s %s %.0f %s %s %d ',
h+math.min(ab,ar),
q.y,
q.b,
ae,
aw,
q.p,
#bm
)..bm..aj
f.o=f.o+d('ZADD',c,string.format('%.0f',bp(q,q.a)),q.f)
d('PEXPIRE',c,ar)
if t=='p'and S==0 then
d('SET',K,ARGV[a+8],'PX',3600000)
end
if H and H.f==q.f then
H.f=''
end
aT(c,f,H)
cV(f,q)
return{0,v,q.a,h,ah,0}
end,
extendShared=function(k,a,kn,an)
local D,bN,V=tonumber(ARGV[a+3]),ARGV[a+4]=='1',tonumber(ARGV[a+5])
if not V or not D or D%1~=0 or D<0 or D>9007199254740991 then
return redis.error_reply('ERR expected a time, and a lifetime in whole milliseconds, at least 0')
end
Y()
local e,m,E=KEYS[k+1],ARGV[a+2],nil
E=m~=''and tonumber(d('ZSCORE',e,m))or nil
if not E or E<=h then
local i=bS(e,true)
local j=i.d[ARGV[a+1]]
if not j then
return{i.k>0 and(i.b=='w'or string.find(m,'^1 w'))and-1 or 0,h}
end
m,E=j.f,j.n
end
if an>5 and string.sub(m,3,3)~=ARGV[a+6]then
return{0,h}
end
if h>V then
return{-2,h}
end
local cj=D==0 and math.huge or h+D
if bN or cj>E then
w[e]=nil
cE(e,m)
d('ZADD',e,cj==math.huge and'+inf'or string.format('%.0f',cj),m)
aW(e)
if string.find(m,'^1 p')then
local bx=d('PTTL',e)
if bx<0 then
d('PERSIST',KEYS[k+2])
else
d('PEXPIRE',KEYS[k+2],string.format('%.0f',bx+3600000))
end
end
end
return{1,h}
end,
releaseShared=function(k,a,kn,an)
Y()
local e,c,m=KEYS[k+1],KEYS[k+2],ARGV[a+2]
local E=m~=''and tonumber(d('ZSCORE',e,m))or nil
local C=1
if not E then
local i=bS(e,true)
local j=i.d[ARGV[a+1]]
if j then
m,E=j.f,j.n
else
C=i.k>0 and(i.b=='w'or string.find(m,'^1 w'))and-1 or 0
end
elseif E<=h then
C=0
end
if E then
d('ZREM',e,m)
cv(e,ARGV[a+1])
if E==math.huge then
aW(e)
end
end
if E and string.find(m,'^1 r 1 [1-9]')and cq(KEYS[k+3])==ARGV[a+1]then
d('DEL',KEYS[k+3])
aR[KEYS[k+3]]=nil
end
local function ao()
if ARGV[a+3]~='0'then
local f=bE(c)
aT(c,f,cu(c,f,ARGV[a+1],tonumber(ARGV[a+3])))
elseif C==1 and string.find(m,'^1 r')and d('ZCOUNT',e,string.format('(%.0f',h),'+inf')>1 then
return
end
if d('ZCARD',c)>0 then
bH(e,c,KEYS[k+3])
end
end
pcall(ao)
return{C}
end,
countPermits=function(k,a,kn,an)
Y()
return{aN(KEYS[k+1],true).s}
end,
raiseShared=function(k,a,kn,an)
local B=tonumber(ARGV[a+2])
if not B or B%1~=0 or B<0 or B>9007199254740991 then
return redis.error_reply('ERR expected a fence')
end
Y()
bd(B)
local e,m=KEYS[k+1],aN(KEYS[k+1],true).d[ARGV[a+1]]
if not m then
return{0}
end
if aS(KEYS[k+2])<B then
ce(KEYS[k+2],B)
end
if m.b=='w'and m.l<B then
local E=m.n==math.huge and'+inf'or string.format('%.0f',m.n)
d('ZADD',e,E,M(m.b,m.t,m.w,B,m.e,m.j))
d('ZREM',e,m.f)
w[e]=nil
end
return{1}
end,
freeShared=function(k,a,kn,an)
Y()
local e,c,aa,y=KEYS[k+1],KEYS[k+2],ARGV[a+1],0
local ci={}
for l,g in pairs(aN(e,true).d)do
if string.sub(redis.sha1hex(l),1,#aa)==aa then
ci[#ci+1]=g
end
end
for aQ,g in ipairs(ci)do
d('ZREM',e,g.f)
cv(e,g.e)
R('PUBLISH',ARGV[a+2],'!'..redis.sha1hex(g.e)..' '..e)
if string.find(g.f,'^1 r 1 [1-9]')then
d('DEL',KEYS[k+3])
aR[KEYS[k+3]]=nil
end
y=y+1
end
if y>0 then
aW(e)
pcall(function()
if d('ZCARD',c)>0 then
bH(e,c,KEYS[k+3])
end
end)
end
return{y}
end,
}
` +
    replyPart +
    `
` +
    dispatchPart +
    `
for b=1,#aG do
pcall(dn,aG[b][1],aG[b][2],aG[b][3])
end
return C`,
};

/**
 * run calls on locks that several may hold, as batch does. One call is a batch of one.
 *
 * @param key the keys of all calls, one after the other
 * @param part for each call: its script, how many keys and how many arguments it has, in one text, and these arguments
 * @returns the call; its reply: [for each call how many integers it answers, and they; or -1 and the text of its error]
 */
export function batchShared(key: readonly string[], part: readonly string[]): ScriptCall {
  return { script: batchSharedScript, keys: key, args: part };
}

const batchScript: Script = {
  name: 'batch',
  sha: 'e91b0e438be3fd257fa6eefc35e365793dd5f286',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
local scripts={
acquire=function(k,a,kn,an)
local l,z,y,V=ARGV[a+1],ARGV[a+2],tonumber(ARGV[a+4]),tonumber(ARGV[a+3])
if z~=be then
local F=tonumber(z)
if not F or F<1 or F>9007199254740991 or not string.find(z,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
be=z
end
if l==''or not V or not y or y%1~=0 or y<0 or y>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local Q=d('TIME')
A=Q[1]*1000000+Q[2]
h=math.floor(A/1000)
end
if h>V then
return{-1,0,0,h}
end
if kn==3 and y<=1 and bk and R('EXISTS',KEYS[k+1],KEYS[k+2])==0 then
local r=0
if y==1 then
local n=aP or d('GET',KEYS[k+3])or'0'
local B=(an==5 or an==6)and tonumber(ARGV[a+5])or 0
r=(aP or string.find(n,'^%d+$'))and math.max(n+1,A,B)
end
if r and r<=A+86400000000 and bk('PEXPIRE',KEYS[k+1],z)then
if y==1 then
d('SET',KEYS[k+3],string.format('%.0f',r))
aP=r
end
d('SETNX',KEYS[k+1],l)
d('PEXPIRE',KEYS[k+1],z)
return(r==A or y==0)and A or{1,r,0,h}
end
end
local w,r,aC=(kn-1)/2,KEYS[k+kn],an>6
local ab=an>7 and tonumber(ARGV[a+8])or 0
local bh,av,v,bb={},{},0,false
for b=1,w do
local s=d('GET',KEYS[k+b])
if not s then
bh[b]=true
else
local F=d('PTTL',KEYS[k+b])
if s~=l then
bb=true
v=(F<0 or v<0)and-1 or math.max(v,F)
elseif F>=0 then
av[b]=math.max(F,tonumber(z))
end
end
end
local n=not bb and y>0 and aS(r)or 0
for b=1,bb and 0 or w do
local e,c=KEYS[k+b],KEYS[k+w+b]
if bh[b]and d('ZCARD',c)>0 then
if aC then
bM(c,l,z,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ab)
end
local ap,aX=bv(e,r,c,aC and l,0,false)
if ap=='mine'then
return{1,aX,d('ZCOUNT',c,0,'+inf'),h}
end
if ap=='given'or aC then
bb=true
v=ap=='given'and d('PTTL',e)or ap=='yielding'and aX-h or 0
break
end
end
end
if bb then
if aC then
return ac(KEYS[k+1],KEYS[k+2],l,z,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ab,v)
end
local P=an==6 and tonumber(ARGV[a+6])or 0
for b=1,P>0 and w or 0 do
dc(KEYS[k+w+b],P)
end
return{0,v,0,h}
end
for b=1,w do
if bh[b]then
by(KEYS[k+b],z)
end
end
local B=(an==5 or an==6)and bd(tonumber(ARGV[a+5]))or 0
local o=next(bh)==nil and y>0 and n>0 and n-y+1 or bz(r,y,B)
for b=1,w do
if bh[b]then
cf(KEYS[k+b],l,z)
elseif av[b]then
d('PEXPIRE',KEYS[k+b],string.format('%.0f',av[b]))
end
end
return{1,o,aC and d('ZCOUNT',KEYS[k+2],0,'+inf')or 0,h}
end,
acquireOnce=function(k,a,kn,an)
` +
    inBatch(acquireOnce1Part) +
    `
end,
extend=function(k,a,kn,an)
` +
    inBatch(extend1Part) +
    `
end,
markSlot=function(k,a,kn,an)
` +
    inBatch(markSlot2Part) +
    `
end,
proclaim=function(k,a,kn,an)
` +
    inBatch(proclaim1Part) +
    `
end,
release=function(k,a,kn,an)
local l,x,w=ARGV[a+1],ARGV[a+2],(kn-1)/2
local o=R('GET',KEYS[k+1])
local O=R('ZCARD',KEYS[k+w+1])
if o==l and O==0 and w==1 and an==3 then
d('DEL',KEYS[k+1])
return{1}
end
local C,bP={},false
for b=1,w do
local s=b==1 and o
if b>1 then
s=R('GET',KEYS[k+b])
O=R('ZCARD',KEYS[k+w+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bP=bP or O~=0
end
for b=1,w do
if C[b]==1 then
d('DEL',KEYS[k+b])
end
end
if not bP and an==3 then
return C
end
local function bO(e,c,cN)
Y()
if x~='0'then
local m=ct(c,l,tonumber(x))
for b=1,#m do
d('ZREM',c,m[b])
end
end
local next=an>3 and ARGV[a+4]
local ab=an>9 and tonumber(ARGV[a+10])or 0
if next then
bK(ARGV[a+5])
bM(c,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ab)
end
local ap,aX
if cN>=0 then
ap,aX=bv(e,KEYS[k+kn],c,next,tonumber(ARGV[a+3]),cN==1)
end
if ap=='mine'then
return{1,aX,d('ZCOUNT',c,0,'+inf'),h}
elseif next then
local v=ap=='yielding'and aX-h or ap=='none'and 0 or nil
return ac(e,c,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ab,v)
end
end
for b=1,w do
local cb,bs=pcall(bO,KEYS[k+b],KEYS[k+w+b],C[b])
if an>3 then
bs=cb and bs or{0,0,0,0,0,0}
for G=1,#bs do
C[#C+1]=bs[G]
end
end
end
return C
end,
raise=function(k,a,kn,an)
` +
    inBatch(raise2Part) +
    `
end,
}
` +
    replyPart +
    `
` +
    dispatchPart +
    `
return C`,
};

/**
 * run several calls in the order given, each on its own keys, arguments and fate.
 *
 * @param key the keys of all calls, one after the other
 * @param part for each call: its script, how many keys and how many arguments it has, in one text, and these arguments
 * @returns the call; its reply: [for each call how many integers it answers, and they; or -1 and the text of its error]
 */
export function batch(key: readonly string[], part: readonly string[]): ScriptCall {
  return { script: batchScript, keys: key, args: part };
}

const countPermitsScript = {
  name: 'countPermits',
};

/**
 * how many permits of a semaphore are out. Changes nothing.
 *
 * @param lock sorted set: one member for each holder
 * @returns the call; its reply: [how many]
 */
export function countPermits(lock: string): Call {
  return { script: countPermitsScript, keys: [lock], args: [] };
}

const enlistScript: Script = {
  name: 'enlist',
  sha: '78ee38524a9a37e8d39d2683bacbe5a29de531a9',
  lua: `local Q=redis.call('TIME')
local h=Q[1]*1000+math.floor(Q[2]/1000)
if ARGV[2]=='0'then
redis.call('ZREM',KEYS[1],ARGV[1])
else
redis.call('ZADD',KEYS[1],h+ARGV[2],ARGV[1])
redis.call('ZREMRANGEBYSCORE',KEYS[1],'-inf',h)
redis.call('PEXPIRE',KEYS[1],ARGV[2])
end
if ARGV[3]~=''then
redis.pcall('PUBLISH',ARGV[3],ARGV[1])
end
return{1}`,
};

/**
 * let a process be found that has written down what it holds; or take it off the list.
 *
 * @param processes sorted set: the ids of processes, each with the server time in ms at which it counts as gone
 * @param id of the process
 * @param ttl ms after which it counts as gone; 0: now
 * @param channel where a change is published; '': nothing changed
 * @returns the call; its reply: [1]
 */
export function enlist(
  processes: string,
  id: string | number,
  ttl: string | number,
  channel: string | number,
): ScriptCall {
  return { script: enlistScript, keys: [processes], args: [String(id), String(ttl), String(channel)] };
}

const extendSharedScript = {
  name: 'extendShared',
};

/**
 * move the end of a holder that is still there. Never makes one, never touches another.
 *
 * @param lock sorted set: one member for each holder
 * @param limit string: how many permits the lock has
 * @param token the holder's
 * @param known its member, as far as the holder knows; it is looked for where that is not there
 * @param lifetime ms from now until its end; 0: never
 * @param exact 1: set this end; 0: only ever a later one (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the holder stops believing
 * @param as for one of a quorum, of a writer: w, and where it is not held so, that is as good as gone
 * @returns the call; its reply: [1 extended | 0 gone | -1 others hold it, beside whom it cannot be | -2 too late: nothing was changed, server time in ms]
 */
export function extendShared(
  lock: string,
  limit: string,
  token: string | number,
  known: string | number,
  lifetime: string | number,
  exact: string | number,
  notAfter: string | number,
  as: readonly string[],
): Call {
  return {
    script: extendSharedScript,
    keys: [lock, limit],
    args: [String(token), String(known), String(lifetime), String(exact), String(notAfter), ...as],
  };
}

const extendScript: Script = {
  name: 'extend',
  sha: 'c9a261f777ee86f60d8935810e45f0daf1a7de0f',
  lua: extend1Part,
};

/**
 * move the end of locks that are still ours. Never makes a key, never touches a stranger's.
 *
 * @param lock string: the holder's token
 * @param token the token that acquired them
 * @param lifetime ms from now until the server frees them; 0: never
 * @param exact 1: set this end; 0: only ever a later one (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the holder stops believing in its locks
 * @returns the call; its reply: [1 extended | 0 gone | -1 somebody else's | -2 too late: nothing was changed, server time in ms]
 */
export function extend(
  lock: readonly string[],
  token: string | number,
  lifetime: string | number,
  exact: string | number,
  notAfter: string | number,
): ScriptCall {
  return { script: extendScript, keys: lock, args: [String(token), String(lifetime), String(exact), String(notAfter)] };
}

const freeSharedScript = {
  name: 'freeShared',
};

/**
 * take a lock that several may hold away from one of its holders, or from all, for an operator, and wake its queue.
 *
 * @param lock sorted set: one member for each holder
 * @param queue sorted set: the queue of the lock
 * @param limit string: how many permits the lock has
 * @param id how the SHA-1 of the holder's token begins; '': all that hold it
 * @param channel where a holder hears that it lost the lock
 * @returns the call; its reply: [how many were taken away]
 */
export function freeShared(
  lock: string,
  queue: string,
  limit: string,
  id: string | number,
  channel: string | number,
): Call {
  return { script: freeSharedScript, keys: [lock, queue, limit], args: [String(id), String(channel)] };
}

const freeScript: Script = {
  name: 'free',
  sha: '79802af57ef6f19ef71b4fff674f24a91d41cf57',
  lua:
    clockPart +
    `
local s=R('GET',KEYS[1])
if type(s)=='table'then
return string.find(s.err,'WRONGTYPE',1,true)and{-1}or s
end
local bQ=s and redis.sha1hex(s)
if not bQ or string.sub(bQ,1,#ARGV[1])~=ARGV[1]then
return{0}
end
d('DEL',KEYS[1])
R('PUBLISH',ARGV[2],'!'..bQ..' '..KEYS[1])
` +
    mintPart +
    `
` +
    queuePart +
    `
local function bO()
Y()
if d('ZCARD',KEYS[2])>0 then
d('ZREM',KEYS[2],'passes')
bv(KEYS[1],KEYS[3],KEYS[2],nil,0,true)
end
end
pcall(bO)
return{1}`,
};

/**
 * take a lock away from its holder, for an operator, and hand it off to its queue.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock
 * @param fence string: the last fence minted for any lock
 * @param id how the SHA-1 of the holder's token begins; '': any holder
 * @param channel where the holder hears that it lost the lock
 * @returns the call; its reply: [1 freed | 0 it is not held, or by another one: nothing was changed | -1 several may hold it: nothing was changed]
 */
export function free(
  lock: string,
  queue: string,
  fence: string,
  id: string | number,
  channel: string | number,
): ScriptCall {
  return { script: freeScript, keys: [lock, queue, fence], args: [String(id), String(channel)] };
}

const inspectScript: Script = {
  name: 'inspect',
  sha: '87954980e274ea9973e1689d995bf1126a303314',
  lua: `local Q=redis.call('TIME')
local A=Q[1]*1000000+Q[2]
local h=math.floor(A/1000)
local function dk(e,v)
local o=redis.pcall('ZRANGE',e,0,15)
if o.err then
return nil,o.err
end
local n=redis.call('ZRANGE',e,-1,-1,'WITHSCORES')
o[#o+1]=n[1]
for b=1,#o do
if not string.find(o[b],'^1 [rwp] %d+ %d+ %d+ %d+ .')then
return nil,'FOREIGN this sorted set has a member that is not of redis-exp-lock'
end
end
local t,O,aE=string.match(n[1],'^1 ([rwp]) %d+ %d+ %d+ (%d+) (.*)$')
if tonumber(n[2])<=h then
return{false,-2,0,t,{}}
end
local i=redis.call('ZRANGEBYSCORE',e,string.format('(%.0f',h),'+inf','WITHSCORES','LIMIT',0,ARGV[1])
v=n[2]=='inf'and-1 or tonumber(n[2])-h
return{string.sub(aE,1,tonumber(O)),v,0,t,i}
end
local w=(#KEYS-1)/2
local C={A,redis.call('GET',KEYS[#KEYS])}
local cg=0
for b=1,w do
local s=redis.pcall('GETRANGE',KEYS[b],0,4095)
local v=redis.call('PTTL',KEYS[b])
if type(s)=='table'then
s=redis.pcall('GET',KEYS[b])
elseif v==-2 then
s=false
end
local as,aU
if type(s)=='table'then
as,aU=dk(KEYS[b],v)
aU=aU and(string.find(aU,'^FOREIGN')and aU or s.err)
else
as={s,v,0,'m',{}}
end
if as then
as[3]=redis.call('ZCOUNT',KEYS[w+b],0,'+inf')
as[6]=as[3]==0 and{}
or redis.call('ZRANGEBYSCORE',KEYS[w+b],0,'+inf','WITHSCORES','LIMIT',0,ARGV[1])
end
C[b+2]=as or aU
cg=cg+(as and#as[5]+#as[6]or 0)
if cg>4096 then
break
end
end
return C`,
};

/**
 * what Redis knows of locks. Changes nothing.
 *
 * @param lock string: the holder's token; or a sorted set of its holders
 * @param queue sorted set: the queue of the lock in the same place
 * @param fence string: the last fence minted for any lock
 * @param most so many holders and entries of each lock are told one by one
 * @returns the call; its reply: [server time in µs, last fence or nil, then for each of the first locks, all if they are not very long, the text of an error, or a list: token or nil, ms left (-1 never ends, -2 free), how many are queued, m a mutex or the kind of its holders r, w, p, [holder, its end, …], [entry of the queue, its score, …]]
 */
export function inspect(
  lock: readonly string[],
  queue: readonly string[],
  fence: string,
  most: string | number,
): ScriptCall {
  return { script: inspectScript, keys: [...lock, ...queue, fence], args: [String(most)] };
}

const markSlotScript: Script = {
  name: 'markSlot',
  sha: '4fb79996d7a5aa0b4430b0da4d8ca5c06ca608e7',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    markSlot2Part,
};

/**
 * from now on the job of a slot counts as done, if the lock that it ran under is still ours.
 *
 * @param lock string: the holder's token
 * @param slot string: when the slot began, in ms of the epoch, whose job has run; ends with that slot
 * @param token the token that acquired the lock
 * @param start when the slot began, in ms of the epoch
 * @param stop when it ends
 * @returns the call; its reply: [1 marked | 0 the lock is no longer ours, or the slot is over: nothing changed]
 */
export function markSlot(
  lock: string,
  slot: string,
  token: string | number,
  start: string | number,
  stop: string | number,
): ScriptCall {
  return { script: markSlotScript, keys: [lock, slot], args: [String(token), String(start), String(stop)] };
}

const plainScript: Script = {
  name: 'plain',
  sha: '8bf8e8d1c8811998e211f22f477109f6c420db61',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
local scripts={
acquire=function(k,a,kn,an)
local l,z,y,V=ARGV[a+1],ARGV[a+2],tonumber(ARGV[a+4]),tonumber(ARGV[a+3])
if z~=be then
local F=tonumber(z)
if not F or F<1 or F>9007199254740991 or not string.find(z,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
be=z
end
if l==''or not V or not y or y%1~=0 or y<0 or y>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local Q=d('TIME')
A=Q[1]*1000000+Q[2]
h=math.floor(A/1000)
end
if h>V then
return{-1,0,0,h}
end
if kn==3 and y<=1 and bk and R('EXISTS',KEYS[k+1],KEYS[k+2])==0 then
local r=0
if y==1 then
local n=aP or d('GET',KEYS[k+3])or'0'
local B=(an==5 or an==6)and tonumber(ARGV[a+5])or 0
r=(aP or string.find(n,'^%d+$'))and math.max(n+1,A,B)
end
if r and r<=A+86400000000 and bk('PEXPIRE',KEYS[k+1],z)then
if y==1 then
d('SET',KEYS[k+3],string.format('%.0f',r))
aP=r
end
d('SETNX',KEYS[k+1],l)
d('PEXPIRE',KEYS[k+1],z)
return(r==A or y==0)and A or{1,r,0,h}
end
end
local w,r,aC=(kn-1)/2,KEYS[k+kn],an>6
local ab=an>7 and tonumber(ARGV[a+8])or 0
local bh,av,v,bb={},{},0,false
for b=1,w do
local s=d('GET',KEYS[k+b])
if not s then
bh[b]=true
else
local F=d('PTTL',KEYS[k+b])
if s~=l then
bb=true
v=(F<0 or v<0)and-1 or math.max(v,F)
elseif F>=0 then
av[b]=math.max(F,tonumber(z))
end
end
end
local n=not bb and y>0 and aS(r)or 0
for b=1,bb and 0 or w do
local e,c=KEYS[k+b],KEYS[k+w+b]
if bh[b]and d('ZCARD',c)>0 then
if aC then
bM(c,l,z,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ab)
end
local ap,aX=bv(e,r,c,aC and l,0,false)
if ap=='mine'then
return{1,aX,d('ZCOUNT',c,0,'+inf'),h}
end
if ap=='given'or aC then
bb=true
v=ap=='given'and d('PTTL',e)or ap=='yielding'and aX-h or 0
break
end
end
end
if bb then
if aC then
return ac(KEYS[k+1],KEYS[k+2],l,z,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ab,v)
end
local P=an==6 and tonumber(ARGV[a+6])or 0
for b=1,P>0 and w or 0 do
dc(KEYS[k+w+b],P)
end
return{0,v,0,h}
end
for b=1,w do
if bh[b]then
by(KEYS[k+b],z)
end
end
local B=(an==5 or an==6)and bd(tonumber(ARGV[a+5]))or 0
local o=next(bh)==nil and y>0 and n>0 and n-y+1 or bz(r,y,B)
for b=1,w do
if bh[b]then
cf(KEYS[k+b],l,z)
elseif av[b]then
d('PEXPIRE',KEYS[k+b],string.format('%.0f',av[b]))
end
end
return{1,o,aC and d('ZCOUNT',KEYS[k+2],0,'+inf')or 0,h}
end,
extend=function(k,a,kn,an)
` +
    inBatch(extend1Part) +
    `
end,
release=function(k,a,kn,an)
local l,x,w=ARGV[a+1],ARGV[a+2],(kn-1)/2
local o=R('GET',KEYS[k+1])
local O=R('ZCARD',KEYS[k+w+1])
if o==l and O==0 and w==1 and an==3 then
d('DEL',KEYS[k+1])
return{1}
end
local C,bP={},false
for b=1,w do
local s=b==1 and o
if b>1 then
s=R('GET',KEYS[k+b])
O=R('ZCARD',KEYS[k+w+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bP=bP or O~=0
end
for b=1,w do
if C[b]==1 then
d('DEL',KEYS[k+b])
end
end
if not bP and an==3 then
return C
end
local function bO(e,c,cN)
Y()
if x~='0'then
local m=ct(c,l,tonumber(x))
for b=1,#m do
d('ZREM',c,m[b])
end
end
local next=an>3 and ARGV[a+4]
local ab=an>9 and tonumber(ARGV[a+10])or 0
if next then
bK(ARGV[a+5])
bM(c,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ab)
end
local ap,aX
if cN>=0 then
ap,aX=bv(e,KEYS[k+kn],c,next,tonumber(ARGV[a+3]),cN==1)
end
if ap=='mine'then
return{1,aX,d('ZCOUNT',c,0,'+inf'),h}
elseif next then
local v=ap=='yielding'and aX-h or ap=='none'and 0 or nil
return ac(e,c,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ab,v)
end
end
for b=1,w do
local cb,bs=pcall(bO,KEYS[k+b],KEYS[k+w+b],C[b])
if an>3 then
bs=cb and bs or{0,0,0,0,0,0}
for G=1,#bs do
C[#C+1]=bs[G]
end
end
end
return C
end,
}
` +
    replyPart +
    `
local am,aH=KEYS,ARGV
local aD,aV,aL,bI=tonumber(ARGV[1]),tonumber(ARGV[2]),ARGV[3],ARGV[4]
local z,V,y=ARGV[5],ARGV[6],tonumber(ARGV[7])
local S,r,bq=aD+aV,KEYS[#KEYS],7+aD
local ay,a=(#KEYS-1-S-aV)/2,S+aV
local av,H,bG,G={},0,{},0
local function cA(M)
local F=tonumber(M)
return F and F>=1 and F<=9007199254740991 and string.find(M,'^%d+$')
end
local i=S>0 and d('MGET',unpack(am,1,S))
if ay+aD>0 then
Y()
end
local dd=bk and aD>0 and cA(aL)
for b=1,aD do
bG[b]=dd and i[b]==aH[7+b]and h<=tonumber(aH[bq+b])
end
if aV>0 then
H=d('EXISTS',unpack(am,S+1,a))
for b=aD+1,S do
if i[b]==aH[bq+b]and(H==0 or d('EXISTS',am[aV+b])==0)then
G=G+1
av[G],bG[b]=am[b],true
end
end
end
local o,az=0,false
if ay>0 then
H=d('EXISTS',unpack(am,a+ay+1,a+2*ay))
local n=y==1 and d('GET',r)or'0'
az=h<=tonumber(V)and cA(z)
az=az and string.find(n,'^%d+$')and tonumber(n)<=A+86400000000
if az and y==1 then
o=math.max(n+1,A)
az=not R('SET',r,string.format('%.0f',o+ay-1)).err
end
end
C,af={S+ay,o,h or 0},3
local function cc(G,dj,bU,...)
KEYS,ARGV=bU,{...}
C[1],C[af+1]=C[1]-1,G
af=af+1
cn(pcall(scripts[dj],0,0,#KEYS,#ARGV))
end
local function cl()
for b=1,ay do
local e,c,l=am[a+b],am[a+ay+b],aH[bq+S+b]
local cX=az and(H==0 or d('EXISTS',c)==0)
if not cX or not d('SET',e,l,'NX','PX',z)then
cc(S+b,'acquire',{e,c,r},l,z,V,aH[7])
end
end
end
if not az then
cl()
end
for b=1,aD do
if not bG[b]or type(R('PEXPIRE',am[b],aL,'GT'))=='table'then
cc(b,'extend',{am[b]},aH[7+b],aL,'0',aH[bq+b])
end
end
local cR=G>0 and R('DEL',unpack(av))
for b=aD+1,S do
if type(cR)=='table'or not bG[b]then
cc(b,'release',{am[b],am[aV+b],r},aH[bq+b],'0',bI)
end
end
if az then
cl()
end
return C`,
};

/**
 * renew locks, release locks, then acquire locks, each by itself and all on equal terms, as nearly all calls of a tick are.
 *
 * @param key the locks to renew; those to release, then their queues; those to acquire, then their queues
 * @param fence string: the last fence minted for any lock
 * @param renewals how many locks to renew
 * @param releases how many to release
 * @param later ms from now until the server frees the renewed locks; one that lasts longer already stays as it is
 * @param window ms for which the released locks yield, when it is the turn of callers outside the queue
 * @param lifetime ms until the server frees the acquired locks by itself
 * @param notAfter server time in ms after which the acquires must change nothing
 * @param fences 1: mint a fence for each; 0: none
 * @param token of the locks to renew, then their own notAfter; of those to release, none of which an acquire here may ask for; of those to acquire
 * @returns the call; its reply: [how many calls went as usual, first fence of the acquires or 0, server time in ms or 0; for each other call its number, then how many integers it answers, and they; or -1 and the text of its error]
 */
export function plain(
  key: readonly string[],
  fence: string,
  renewals: string | number,
  releases: string | number,
  later: string | number,
  window: string | number,
  lifetime: string | number,
  notAfter: string | number,
  fences: string | number,
  token: readonly string[],
): ScriptCall {
  return {
    script: plainScript,
    keys: [...key, fence],
    args: [
      String(renewals),
      String(releases),
      String(later),
      String(window),
      String(lifetime),
      String(notAfter),
      String(fences),
      ...token,
    ],
  };
}

const processesScript: Script = {
  name: 'processes',
  sha: '1c07ce2991a3b3f36bbe395ee9bf6589360b6882',
  lua: `local Q=redis.call('TIME')
local h=Q[1]*1000+math.floor(Q[2]/1000)
local aK=redis.call('ZRANGEBYSCORE',KEYS[1],string.format('(%.0f',h),'+inf')
table.insert(aK,1,h)
return aK`,
};

/**
 * which processes have written down what they hold. Changes nothing.
 *
 * @param processes sorted set: the ids of processes, each with the server time in ms at which it counts as gone
 * @returns the call; its reply: [server time in ms, then their ids]
 */
export function processes(processes: string): ScriptCall {
  return { script: processesScript, keys: [processes], args: [] };
}

const proclaimScript: Script = {
  name: 'proclaim',
  sha: '6e5abc9a275d70734c12b5db0900409a4e533fbe',
  lua: proclaim1Part,
};

/**
 * write down beside a lock who leads with it, if that is still us, and tell those that observe it.
 *
 * @param lock string: the holder's token
 * @param value string: who leads, as its holder wrote it down
 * @param token the token that acquired the lock
 * @param text who leads; '': nobody does from now on
 * @param ttl ms for which it is kept
 * @param channel where observers hear that there is something new
 * @param message what they hear
 * @returns the call; its reply: [1 written | 0 the lock is no longer ours: nothing changed]
 */
export function proclaim(
  lock: string,
  value: string,
  token: string | number,
  text: string | number,
  ttl: string | number,
  channel: string | number,
  message: string | number,
): ScriptCall {
  return {
    script: proclaimScript,
    keys: [lock, value],
    args: [String(token), String(text), String(ttl), String(channel), String(message)],
  };
}

const raiseSharedScript = {
  name: 'raiseShared',
};

/**
 * as raise, for a lock that several may hold, while the token is one of its holders; a writer's own fence
 *
 * @param lock sorted set: one member for each holder
 * @param fence string: the last fence minted for any lock
 * @param token the holder's
 * @param least the fence that every later one must exceed
 * @returns the call; its reply: [1 it is that large | 0 the token holds nothing: nothing was changed]
 */
export function raiseShared(lock: string, fence: string, token: string | number, least: string | number): Call {
  return { script: raiseSharedScript, keys: [lock, fence], args: [String(token), String(least)] };
}

const raiseScript: Script = {
  name: 'raise',
  sha: '855cb8ed920b63c50d47750b65e10cd961bce55b',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    raise2Part,
};

/**
 * let the last fence be at least so large, while locks are still ours. For one of a quorum.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for any lock
 * @param token the token that acquired them
 * @param least the fence that every later one must exceed
 * @returns the call; its reply: [1 it is that large | 0 not all of them are ours: nothing was changed]
 */
export function raise(
  lock: readonly string[],
  fence: string,
  token: string | number,
  least: string | number,
): ScriptCall {
  return { script: raiseScript, keys: [...lock, fence], args: [String(token), String(least)] };
}

const readHolderScript: Script = {
  name: 'readHolder',
  sha: '54001acb3002637d6002f8d97a1dd2735d71ffb7',
  lua: "return{redis.call('GET',KEYS[1]),redis.call('PTTL',KEYS[1]),redis.call('GET',KEYS[2])}",
};

/**
 * who holds a lock, and what is kept beside it. Changes nothing.
 *
 * @param lock string: the holder's token
 * @param value string: what was written beside it last
 * @returns the call; its reply: [token or nil, ms left (-1 never ends, -2 free), text or nil]
 */
export function readHolder(lock: string, value: string): ScriptCall {
  return { script: readHolderScript, keys: [lock, value], args: [] };
}

const readPlacesScript: Script = {
  name: 'readPlaces',
  sha: '3c2db36e94909060944ad3f5fc7cab34327fa57f',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    holdersPart +
    `
Y()
local bl={}
for aQ,g in pairs(aN(KEYS[1],true).d)do
bl[#bl+1]=g.j
end
return bl`,
};

/**
 * which places of a semaphore on a quorum are taken at this node. Changes nothing.
 *
 * @param lock sorted set: one member for each holder
 * @returns the call; its reply: [of each holder, the places that it has: ",0,3,"]
 */
export function readPlaces(lock: string): ScriptCall {
  return { script: readPlacesScript, keys: [lock], args: [] };
}

const readProcessScript: Script = {
  name: 'readProcess',
  sha: '620cd258c2c9c88c9d10db67812ccf663d96bdc6',
  lua: "return redis.call('GET',KEYS[1])",
};

/**
 * what a process has written down. Changes nothing.
 *
 * @param process string: what it holds and waits for, as JSON
 * @returns the call; its reply: [the text, or nil]
 */
export function readProcess(process: string): ScriptCall {
  return { script: readProcessScript, keys: [process], args: [] };
}

const readValueScript: Script = {
  name: 'readValue',
  sha: '620cd258c2c9c88c9d10db67812ccf663d96bdc6',
  lua: "return redis.call('GET',KEYS[1])",
};

/**
 * what is cached beside a lock. Changes nothing.
 *
 * @param value string: what was stored last
 * @returns the call; its reply: the text, or nil
 */
export function readValue(value: string): ScriptCall {
  return { script: readValueScript, keys: [value], args: [] };
}

const registerScript: Script = {
  name: 'register',
  sha: '4b0b5a96222bf566b48ea5fcddad051183b7b76a',
  lua: `if ARGV[1]=='='then
return{redis.call('PEXPIRE',KEYS[1],ARGV[2])}
elseif ARGV[1]==''then
redis.call('DEL',KEYS[1])
else
redis.call('SET',KEYS[1],ARGV[1],'PX',ARGV[2])
end
return{1}`,
};

/**
 * write down what a process holds and waits for, so that others can list it.
 *
 * @param process string: what it holds and waits for, as JSON
 * @param text that; '': it does neither any more; '=': the same as before
 * @param ttl ms after which it counts as gone
 * @returns the call; its reply: [1 done | 0 there was nothing that could stay as before]
 */
export function register(process: string, text: string | number, ttl: string | number): ScriptCall {
  return { script: registerScript, keys: [process], args: [String(text), String(ttl)] };
}

const releaseSharedScript = {
  name: 'releaseShared',
};

/**
 * stop being one of a lock's holders, or leave its queue, and wake those that can then be admitted.
 *
 * @param lock sorted set: one member for each holder
 * @param queue sorted set: the queue of the lock
 * @param limit string: how many permits the lock has
 * @param token the holder's
 * @param known the member, as far as the holder knows; it is looked for where that is not there
 * @param ticket what the token is queued with: 0 it is not; else it leaves the queue too
 * @returns the call; its reply: [1 released | 0 gone | -1 others hold it, beside whom it cannot be]
 */
export function releaseShared(
  lock: string,
  queue: string,
  limit: string,
  token: string | number,
  known: string | number,
  ticket: string | number,
): Call {
  return {
    script: releaseSharedScript,
    keys: [lock, queue, limit],
    args: [String(token), String(known), String(ticket)],
  };
}

const releaseScript: Script = {
  name: 'release',
  sha: '1160de4db4219094099eef4077b8aa71518e227f',
  lua:
    clockPart +
    `
` +
    release1Part +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
` +
    release2Part,
};

/**
 * release locks, each if it is still ours, and hand it off to its queue. Also how an entry leaves its queue.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock in the same place
 * @param fence string: the last fence minted for any lock
 * @param token the token that acquired them
 * @param ticket what the token is queued with: 0 it is not; -1 perhaps, with a ticket that is not known
 * @param window ms for which the lock yields, when it is the turn of callers outside the queue
 * @param next what the same process is queued with from now on (one lock): token, lifetime, fences, channel, id, ticket,
 * @returns the call; its reply: [for each lock 1 released | 0 gone | -1 somebody else's: left alone; then, with next, the reply of its acquire]
 */
export function release(
  lock: readonly string[],
  queue: readonly string[],
  fence: string,
  token: string | number,
  ticket: string | number,
  window: string | number,
  next: readonly string[],
): ScriptCall {
  return {
    script: releaseScript,
    keys: [...lock, ...queue, fence],
    args: [String(token), String(ticket), String(window), ...next],
  };
}

const writeValueScript: Script = {
  name: 'writeValue',
  sha: 'da6c57e324ddad1066c59102a7e09e8e4f3619b3',
  lua: `if redis.call('GET',KEYS[1])~=ARGV[1]then
return{0}
end
redis.call('SET',KEYS[2],ARGV[2],'PX',ARGV[3])
return{1}`,
};

/**
 * keep a value beside a lock, if that is still ours.
 *
 * @param lock string: the holder's token
 * @param value string: what is cached
 * @param token the token that acquired the lock
 * @param text what to keep
 * @param ttl ms for which it is kept
 * @returns the call; its reply: [1 stored | 0 the lock is no longer ours: nothing changed]
 */
export function writeValue(
  lock: string,
  value: string,
  token: string | number,
  text: string | number,
  ttl: string | number,
): ScriptCall {
  return { script: writeValueScript, keys: [lock, value], args: [String(token), String(text), String(ttl)] };
}

export const scripts: readonly Script[] = [
  acquireOnceScript,
  acquireScript,
  batchSharedScript,
  batchScript,
  enlistScript,
  extendScript,
  freeScript,
  inspectScript,
  markSlotScript,
  plainScript,
  processesScript,
  proclaimScript,
  raiseScript,
  readHolderScript,
  readPlacesScript,
  readProcessScript,
  readValueScript,
  registerScript,
  releaseScript,
  writeValueScript,
];
