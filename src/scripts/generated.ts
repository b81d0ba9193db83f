// Made by `npm run generate` from the .lua files beside it; do not edit.

// biome-ignore-all lint/style/useTemplate: what stands between two parts may be a line end only

import { type Call, inBatch, type Script, type ScriptCall } from './script';

const clockPart = `local KEYS,ARGV,tonumber=KEYS,ARGV,tonumber
local d,S,bl=redis.call,redis.pcall,redis.acl_check_cmd
local A,h,bf,aQ`;
const dispatchPart = `local cL={}
local bW,bb=0,0
while bb<#ARGV do
local M=ARGV[bb+1]
local aG=cL[M]
if not aG then
local df,bV,cQ=string.match(M,'^(%a+) (%d+) (%d+)$')
aG={scripts[df],tonumber(bV),tonumber(cQ)}
cL[M]=aG
end
co(pcall(aG[1],bW,bb+1,aG[2],aG[3]))
bW,bb=bW+aG[2],bb+1+aG[3]
end`;
const holdersPart = `local x,bf,aS={},{},{}
local X=16
local function bj(M)
return string.find(M,'^1 [rwp] %d+ %d+ %d+ %d+ .')~=nil
end
local function cI()
error('FOREIGN this sorted set has a member that is not of redis-exp-lock, or of another version of it',0)
end
local function L(M)
local t,ae,T,r,P,aF=string.match(M,'^1 ([rwp]) (%d+) (%d+) (%d+) (%d+) (.+)$')
if not t then
return nil
end
P=tonumber(P)
return{
b=t,
t=tonumber(ae),
w=tonumber(T),
l=tonumber(r),
e=string.sub(aF,1,P),
j=string.sub(aF,P+1),
f=M,
}
end
local function M(t,ae,T,r,l,al)
return string.format('1 %s %.0f %.0f %.0f %d ',t,ae,T,r,#l)..l..al
end
local function bK(i,g)
i.b,i.j=g.b,g.j
i.k,i.s=i.k+1,i.s+g.t
end
local function bu(i,g,E)
g.n=E
i.d[g.e]=g
i.l=math.max(i.l,g.l)
bK(i,g)
end
local function bZ()
return{d={},k=0,s=0,l=0,i=true}
end
local function bt(e)
local O=bf[e]
if not O then
local j=d('ZRANGE',e,0,X-1,'WITHSCORES')
O={c={},C=#j==2*X,m=false}
for b=1,#j,2 do
if not bj(j[b])then
O.m=true
elseif tonumber(j[b+1])<=h then
O.c[#O.c+1]=j[b]
end
end
if O.C then
local ai=A%d('ZCARD',e)
local cN=d('ZRANGE',e,ai,ai+X-1)
for b=1,#cN do
O.m=O.m or not bj(cN[b])
end
end
bf[e]=O
end
return O
end
local function cF(e,bx)
local O=bt(e)
if O.D then
return
elseif O.m or#O.c==X then
local ak={'1 r 1 0 0 0 '}
for b=1,#O.c do
ak[b+1]=O.c[b]~=bx and O.c[b]or ak[1]
end
d('ZREM',e,unpack(ak))
else
d('ZREMRANGEBYSCORE',e,'-inf',string.format('%.0f',h))
end
O.D=true
end
local function bT(e,f)
local i=x[e]
if i and(i.i or not f)then
return i
end
i=bZ()
local aB=string.format('(%.0f',h)
local j=d('ZRANGEBYSCORE',e,aB,'+inf','WITHSCORES','LIMIT',0,X)
if#j==2*X and(f or string.sub(j[1],1,3)=='1 p')then
j=d('ZRANGEBYSCORE',e,aB,'+inf','WITHSCORES')
elseif#j==2*X then
i.i=false
j=d('ZRANGE',e,'+inf',aB,'BYSCORE','REV','LIMIT',0,X,'WITHSCORES')
end
for b=1,#j,2 do
local g=L(j[b])
if g then
bu(i,g,tonumber(j[b+1]))
else
i.m=true
end
end
x[e]=i
return i
end
local function aN(e,f)
local i=bT(e,f)
if i.m or bt(e).m then
cI()
end
return i
end
local function dc(e,l,al,cT)
if x[e]then
return nil
end
local j=d('ZRANGE',e,-1,-1,'WITHSCORES')
local n=j[1]and tonumber(j[2])>h and L(j[1])
if not n or n.b~='r'or n.j~=al or n.e==l or(cT and n.l==0)then
return nil
end
if bt(e).m then
cI()
end
local i=bZ()
bu(i,n,tonumber(j[2]))
return i
end
local function cP(i,l)
if not i.d[l]then
return i
end
local aq=bZ()
aq.i,aq.m=i.i,i.m
for ar,g in pairs(i.d)do
if ar~=l then
bu(aq,g,g.n)
end
end
return aq
end
local function dm(i,bm)
for dh in string.gmatch(bm,'%d+')do
for aR,g in pairs(i.d)do
if string.find(g.j,','..dh..',',1,true)then
return true
end
end
end
return false
end
local function cw(e,l)
local i=x[e]
x[e]=i and i.i and cP(i,l)or nil
end
local function cr(K)
if aS[K]==nil then
aS[K]=d('GET',K)or false
end
return aS[K]
end
local function aX(e)
local n=d('ZRANGE',e,-1,-1,'WITHSCORES')
if not n[1]or not bj(n[1])then
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
local R=d('TIME')
A=R[1]*1000000+R[2]
h=math.floor(A/1000)
end
end
local function bL(M)
local F=tonumber(M)
if not F or F<1 or F>9007199254740991 or not string.find(M,'^%d+$')then
error('ERR expected a lifetime in whole milliseconds, at least 1',0)
end
end
local function bz(e,B)
if bl and not bl('PEXPIRE',e,B)then
error('NOPERM this user has no permissions to run PEXPIRE on a lock',0)
end
end
local function be(r)
if not r or r>9007199254740991 or r>A+86400000000 then
error('FENCE the fence counter of this server is no number, or more than a day ahead of the clock',0)
end
return r
end
local function aT(r)
if not aQ then
local n=d('GET',r)
aQ=n and be(string.find(n,'^%d+$')and tonumber(n))or 0
end
return aQ
end
local function cf(r,n)
d('SET',r,string.format('%.0f',n))
aQ=n
end
local function bA(r,z,v)
if z==0 then
return 0
end
local o=math.max(aT(r)+1,A,v or 0)
cf(r,o+z-1)
return o
end
local function cg(e,l,B)
d('SETNX',e,l)
local cK=S('PEXPIRE',e,B)
if type(cK)=='table'then
d('DEL',e)
error(cK.err,0)
end
end`;
const queuePart = `local au,bC=10000,1000
local function cs(c,L)
local aZ=string.match(L,'^(%d+) ')
if aZ and aZ~='1'then
if d('PTTL',c)<0 then
d('PEXPIRE',c,au)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock',0)
end
return aZ
end
local function bg(c,L)
local Z,aa,D,J,at,l=
string.match(cs(c,L)and L or'','^1 (%d+) (%S+) (%d+) (%d+) (%S+) (.+)$')
Z,J=tonumber(Z),tonumber(J)
if not Z or Z<h or Z>h+au or J>1024 then
return nil
end
local F=tonumber(D)
if F>=1 and F<=9007199254740991 then
return aa,D,J,at,l
end
end
local function cu(c,l,y)
local j
if y>0 then
j=d('ZRANGEBYSCORE',c,y,y,'WITHSCORES')
else
j=d('ZRANGE',c,'+inf',0,'BYSCORE','REV','LIMIT',0,256,'WITHSCORES')
end
local m={}
for b=1,#j,2 do
if cs(c,j[b])and string.match(j[b],'^1 %d+ %S+ %d+ %d+ %S+ (.+)$')==l then
m[#m+1]=j[b]
y=tonumber(j[b+1])
end
end
return m,y
end
local function bN(c,l,D,J,at,aa,y,ab)
local ce=A+86400000000
local p=tonumber(y)
local m
m,p=cu(c,l,p<=ce and p or 0)
for b=1,#m do
d('ZREM',c,m[b])
end
if p<=0 or p>ce then
local n=d('ZRANGE',c,-1,-1,'WITHSCORES')
while n[1]and tonumber(n[2])>ce do
d('ZREM',c,n[1])
n=d('ZRANGE',c,-1,-1,'WITHSCORES')
end
p=math.max(A,(tonumber(n[2])or 0)+1)
end
local ai=string.format('%.0f',p)
local aj=d('ZCOUNT',c,0,'('..ai)
local F=math.max(2*math.min(math.max(1000,125*(aj+1)),2000),math.min(ab,au))
local Z=string.format('%.0f',h+F)
d('ZADD',c,ai,table.concat({'1',Z,aa,D,J,at,l},' '))
d('PEXPIRE',c,au)
return p,aj
end
local function cE(L,p)
local W,U=string.match(L,'^poll (%d+) (%d+)$')
W,U=tonumber(W),tonumber(U)
if W and W<=h and U>=h and U<=h+au and-p<=bC then
return-p,W,U
end
end
local function dd(c,Q)
Q=math.ceil(Q)
if Q>bC or d('ZCARD',c)==0 then
return
end
local W,U=h,h+2*Q+100
local j=d('ZRANGEBYSCORE',c,'-inf','(0','WITHSCORES')
for b=1,#j,2 do
local aM,o,n=nil,nil,nil
if string.sub(j[b],1,5)=='poll 'then
aM,o,n=cE(j[b],tonumber(j[b+1]))
end
if aM then
W=math.min(W,o)
if aM>Q then
Q,U=aM,n
end
end
end
local aC=string.format('poll %.0f %.0f',W,U)
S('ZADD',c,string.format('-%.0f',math.max(Q,1)),aC)
for b=1,#j,2 do
if string.sub(j[b],1,5)=='poll 'and j[b]~=aC then
S('ZREM',c,j[b])
end
end
end
local function cV(c)
local o,aJ,U,Q,W,aC=nil,0,0,0,h,nil
local ak,aB={},0
repeat
local j=d('ZRANGE',c,aB,aB+32,'WITHSCORES')
for b=1,#j,2 do
local L,p=j[b],tonumber(j[b+1])
if p>=0 then
o=bg(c,L)and L
if o then
break
end
ak[#ak+1]=L
elseif L=='passes'then
aJ=p>=-1000000 and-p or 0
U=aJ==0 and-p<=h+2*bC and-p or 0
else
local aM,cR=cE(L,p)
if aM then
Q,W,aC=aM,cR,L
else
ak[#ak+1]=L
end
end
end
aB=aB+33
until o or#j<66 or#ak>=2048
if#ak>0 then
d('ZREM',c,unpack(ak))
end
return o,aJ,U,Q,W,aC
end
local function bv(e,r,c,m,bJ,cx)
local o,aJ,U,Q,W,aC=cV(c)
if not o then
if d('ZCOUNT',c,0,'+inf')==0 then
d('DEL',c)
end
return'none'
end
if U>h then
return'yielding',U
end
local aa,D,J,at,l=bg(c,o)
local cl=math.max(math.min(bJ,bC),Q>0 and Q+20 or 0)
if cx and bJ>0 and(aJ>=64 or(Q>0 and h-W>=8*cl))then
d('ZADD',c,string.format('-%.0f',h+cl),'passes')
if aC then
d('ZREM',c,aC)
end
if l~=m then
S('PUBLISH',at,aa..' '..e)
end
return'yielding',h+cl
end
local B=l==m and D or string.format('%.0f',math.min(tonumber(D),2000))
bz(e,B)
if J>0 then
aT(r)
end
if cx then
d('ZADD',c,-(aJ+1),'passes')
elseif aJ+U>0 then
d('ZREM',c,'passes')
end
d('ZREM',c,o)
local ao=bA(r,J)
cg(e,l,B)
if l==m then
return'mine',ao
end
S('PUBLISH',at,aa..'='..string.format('%.0f',ao)..' '..e)
return'given'
end
local function bj(l)
return#l>=36 and string.sub(l,-4)==string.sub(l,-36,-33)
end
local function ac(e,c,l,D,J,at,aa,y,ab,w)
local s=d('GET',e)
local p,aj=bN(c,l,D,J,at,aa,y,ab)
return{0,w or d('PTTL',e),p,h,aj,s and not bj(s)and 1 or 0}
end`;
const replyPart = `local C,af={},0
local function co(cc,ac)
if type(ac)=='number'then
ac={ac}
end
if cc and not ac.err then
local z=#ac
C[af+1]=z
for b=1,z do
C[af+1+b]=ac[b]
end
af=af+1+z
else
C[af+1]=-1
C[af+2]=type(ac)=='table'and ac.err or ac
af=af+2
end
end`;
const waitersPart = `local cG,aH={},{}
local au,bB=10000,32
local aA,dj={1e15,5e14,0},500000
local function cp(t,az)
if t=='u'or(t=='r'and az=='r')then
return 1
end
return t=='w'and az=='w'and 2 or 3
end
local bG=1
local function bq(g,y)
return g.b=='u'and bG or y-aA[g.g]
end
local function bg(c,j,p)
local aZ=string.match(j,'^(%d+) ')
if aZ and aZ~='2'then
if d('PTTL',c)<0 then
d('PEXPIRE',c,au)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock',0)
end
local Z,aa,t,ae,az,at,P,aF=
string.match(j,'^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.+)$')
Z,P=tonumber(Z),tonumber(P)
if not Z or Z<h or Z>h+au or P<1 or P>#aF then
return nil
end
local g={
b=t,
g=cp(t,az),
t=tonumber(ae),
F=az,
p=at,
y=aa,
e=string.sub(aF,1,P),
j=string.sub(aF,P+1),
f=j,
}
g.a=t=='u'and bG or p+aA[g.g]
return g.a<=A+86400000000 and g or nil
end
local function ct(u)
local bk=u>1 and string.format('%.0f',A-(aA[u-1]+aA[u])/2)or'0'
local bS=u<3 and string.format('(%.0f',A-(aA[u]+aA[u+1])/2)or'+inf'
return bk,bS
end
local function cH(c,f,j)
for b=1,#j,2 do
local p=tonumber(j[b+1])
local g=p>=0 and bg(c,j[b],p)
f.o=f.o-(p<0 and 1 or 0)
if j[b]=='phase'and-p<=A then
f.v=-p
elseif j[b]=='told'then
f.q=-p
elseif g then
local am=f[g.g].h
am[#am+1]=g
f[g.g].z=p
f.d[g.e]=f.d[g.e]or g
elseif p>=0 then
f.c[#f.c+1]=j[b]
end
end
end
local function bF(c)
local f=cG[c]
if f then
return f
end
f={v=0,q=0,r=0,d={},c={}}
for u=1,3 do
local bk,bS=ct(u)
f[u]={h={},A=bk,x=bS}
end
f.o=d('ZCARD',c)
f.i=f.o<=X+2
local j=f.o==0 and{}
or d('ZRANGEBYSCORE',c,'-inf',f.i and'+inf'or'(0','WITHSCORES','LIMIT',0,X+2)
cH(c,f,j)
for u=1,3 do
f[u].u=not f.i
end
cG[c]=f
return f
end
local function ai(c,f,u,G)
local I=f[u]
while G>#I.h and I.u and#f.c<2048 do
local z=G==1 and math.min(X,3)or X
local j=d('ZRANGEBYSCORE',c,I.A,I.x,'WITHSCORES','LIMIT',0,z)
I.u=#j==2*z
if#j>0 then
I.A='('..j[#j]
end
cH(c,f,j)
end
return I.h[G]
end
local function cv(c,f,l,y,bD)
local g=f.d[l]
for u=bD or 1,(g or f.i or y==0)and 0 or bD or 3 do
local j
if y>0 then
local p=y==bG and y or y-aA[u]
j=d('ZRANGEBYSCORE',c,p,p,'WITHSCORES')
else
j=d('ZRANGE',c,f[u].x,'0','BYSCORE','REV','LIMIT',0,4*X,'WITHSCORES')
end
for b=1,#j,2 do
local cb=string.find(j[b],l,1,true)and bg(c,j[b],tonumber(j[b+1]))
g=cb and cb.e==l and cb or g
end
end
return g
end
local function dn(f)
return f.o-#f.c
end
local function dg(c,f,q)
local n=f.i and 0 or f.r
for u=1,3 do
local am=f[u].h
n=math.max(n,am[#am]and am[#am].a or 0)
end
local I=f[q.g]
if not f.i and not I.r then
local j=d('ZRANGE',c,I.x,'0','BYSCORE','REV','LIMIT',0,1,'WITHSCORES')
local y=(tonumber(j[2])or 0)+aA[q.g]
I.r=y<=A+86400000000 and y or 0
end
n=math.max(n,I.r or 0)
return math.max(A,n+1)
end
local function di(c,f,q)
local p=bq(q,q.a)
if not f.i then
return d('ZCOUNT',c,0,string.format('(%.0f',p))
end
local aj=0
for u=1,q.g do
for aR,g in ipairs(f[u].h)do
if g.e~=q.e and bq(g,g.a)<p then
aj=aj+1
end
end
end
return aj
end
local function cW(f,g)
local I,p=f[g.g],bq(g,g.a)
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
local function aU(c,f,g)
if g or#f.c>0 then
f.o=f.o-d('ZREM',c,g and g.f or f.c[1],unpack(f.c))
f.c={}
end
if g then
local am=f[g.g].h
for G=1,#am do
if am[G]==g then
table.remove(am,G)
break
end
end
f.d[g.e]=nil
end
end
local function cA(c,f)
if f.i and#f[1].h+#f[2].h+#f[3].h==0 then
d('DEL',c)
f.v,f.q=0,0
return true
end
end`;
const wakePart = `local function cD(c,f,ad,q)
local bw={}
for u=1,3 do
local g=ai(c,f,u,ad[u])
while g and q and g.e==q.e do
ad[u]=ad[u]+1
g=ai(c,f,u,ad[u])
end
if q and q.g==u and not ad.B and(not g or q.a<g.a)then
g=q
end
bw[u]=g
end
local bo,o,bE=bw[1],bw[2],bw[3]
if bE and(not o or(bE.a<=f.v and bE.a<o.a))then
o=bE
end
local db=bo and o and(o.a>bo.a or A-o.a<=dj)
if bo and(not o or db or bo.b=='u')then
o=bo
end
if o and o==q then
ad.B=true
elseif o then
ad[o.g]=ad[o.g]+1
end
return o
end
local function cJ(i)
local bD=i.k==1 and next(i.d)or nil
return{k=i.k,b=i.b,j=i.j,s=i.s,E=bD}
end
local function cn(i,g,K)
if g.b=='p'then
return i.s+g.t<=K
elseif g.b=='r'then
return i.k==0 or(i.b=='r'and i.j==g.j)
elseif g.b=='u'and i.k==1 and i.E==g.e then
return true
end
return i.k==0
end
local function cC(c,f,i,q,ax)
local bp,ad=cJ(i),{1,1,1}
local o,I,p=ai(c,f,q.g,1),f[q.g],bq(q,q.a)
if o and I.u and p>I.z then
local bk=ct(q.g)
if d('ZCOUNT',c,bk,string.format('(%.0f',p))-#f.c>=bB then
return false
end
end
for aR=1,bB do
local g=cD(c,f,ad,q)
if not g or not cn(bp,g,ax)then
return false
elseif g==q then
return true
end
bK(bp,g)
end
return false
end
local function bI(e,c,K)
local f=bF(c)
aU(c,f)
if not cA(c,f)and not aH[e]then
aH[e]=true
aH[#aH+1]={e,c,K}
end
end
local function dp(e,c,K)
local f,ad=bF(c),{1,1,1}
local bp=cJ(aN(e))
local ax=tonumber(d('GET',K)or 0)or 0
local aK,bd,n={},{},0
for G=1,bB do
local g=cD(c,f,ad)
if not g or not cn(bp,g,ax)then
break
end
bK(bp,g)
n=G==bB and g.a or 0
if g.p~='-'then
if not aK[g.p]then
bd[#bd+1]=g.p
aK[g.p]={}
end
table.insert(aK[g.p],g.y)
end
end
for b=1,#bd do
redis.pcall('PUBLISH',bd[b],table.concat(aK[bd[b]],',')..' '..e)
end
if n>0 then
d('ZADD',c,string.format('-%.0f',n),'told')
elseif f.q>0 then
d('ZREM',c,'told')
end
f.q=n
end`;
const acquireOnce1Part = `local l,B,V,J=ARGV[1],ARGV[2],tonumber(ARGV[3]),tonumber(ARGV[4])
local bh,ca=tonumber(ARGV[5]),tonumber(ARGV[6])
bL(B)
if l==''or not V or not J or not bh or bh<1 or not ca then
return redis.error_reply('ERR expected a token, a moment, how many fences, and a slot')
end
Y()
if h>V then
return{-1,0,0,h}
end
local e,r,c,cM=KEYS[1],KEYS[2],KEYS[3],KEYS[4]
local s=d('GET',e)
local ci=math.floor((h-ca)/bh)*bh+ca
local bM=tonumber(d('GET',cM)or'')
if s~=l and bM and bM>=ci and bM<=h+86400000 then
return{-4,0,0,h}
end
if s and s~=l then
return{0,d('PTTL',e),0,h}
end
if not s and d('ZCARD',c)>0 and bv(e,r,c,false,0,false)=='given'then
return{0,d('PTTL',e),0,h}
end
bz(e,B)
local ao=s and J>0 and aT(r)or 0
if ao==0 then
ao=bA(r,J)
end
if ARGV[7]=='1'then
d('SET',cM,string.format('%.0f',ci),'PX',string.format('%.0f',ci+bh-h))
end
if not s then
cg(e,l,B)
else
d('PEXPIRE',e,string.format('%.0f',math.max(d('PTTL',e),tonumber(B))))
end
return{1,ao,0,h}`;
const acquire1Part = `local l,B,z,V=ARGV[1],ARGV[2],tonumber(ARGV[4]),tonumber(ARGV[3])
if B~=bf then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
bf=B
end
if l==''or not V or not z or z%1~=0 or z<0 or z>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local R=d('TIME')
A=R[1]*1000000+R[2]
h=math.floor(A/1000)
end
if h>V then
return{-1,0,0,h}
end
if#KEYS==3 and z<=1 and bl and S('EXISTS',KEYS[1],KEYS[2])==0 then
local r=0
if z==1 then
local n=aQ or d('GET',KEYS[3])or'0'
local v=(#ARGV==5 or#ARGV==6)and tonumber(ARGV[5])or 0
r=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,v)
end
if r and r<=A+86400000000 and bl('PEXPIRE',KEYS[1],B)then
if z==1 then
d('SET',KEYS[3],string.format('%.0f',r))
aQ=r
end
d('SETNX',KEYS[1],l)
d('PEXPIRE',KEYS[1],B)
return(r==A or z==0)and A or{1,r,0,h}
end
end`;
const acquire2Part = `local x,r,aD=(#KEYS-1)/2,KEYS[#KEYS],#ARGV>6
local ab=#ARGV>7 and tonumber(ARGV[8])or 0
local bi,ay,w,bc={},{},0,false
for b=1,x do
local s=d('GET',KEYS[b])
if not s then
bi[b]=true
else
local F=d('PTTL',KEYS[b])
if s~=l then
bc=true
w=(F<0 or w<0)and-1 or math.max(w,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bc and z>0 and aT(r)or 0
for b=1,bc and 0 or x do
local e,c=KEYS[b],KEYS[x+b]
if bi[b]and d('ZCARD',c)>0 then
if aD then
bN(c,l,B,ARGV[4],ARGV[5],ARGV[6],ARGV[7],ab)
end
local ar,aY=bv(e,r,c,aD and l,0,false)
if ar=='mine'then
return{1,aY,d('ZCOUNT',c,0,'+inf'),h}
end
if ar=='given'or aD then
bc=true
w=ar=='given'and d('PTTL',e)or ar=='yielding'and aY-h or 0
break
end
end
end
if bc then
if aD then
return ac(KEYS[1],KEYS[2],l,B,ARGV[4],ARGV[5],ARGV[6],ARGV[7],ab,w)
end
local Q=#ARGV==6 and tonumber(ARGV[6])or 0
for b=1,Q>0 and x or 0 do
dd(KEYS[x+b],Q)
end
return{0,w,0,h}
end
for b=1,x do
if bi[b]then
bz(KEYS[b],B)
end
end
local v=(#ARGV==5 or#ARGV==6)and be(tonumber(ARGV[5]))or 0
local o=next(bi)==nil and z>0 and n>0 and n-z+1 or bA(r,z,v)
for b=1,x do
if bi[b]then
cg(KEYS[b],l,B)
elseif ay[b]then
d('PEXPIRE',KEYS[b],string.format('%.0f',ay[b]))
end
end
return{1,o,aD and d('ZCOUNT',KEYS[2],0,'+inf')or 0,h}`;
const extend1Part = `local D,bO=tonumber(ARGV[2]),ARGV[3]=='1'
if not D or D%1~=0 or D<0 or D>9007199254740991 then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')
end
local R=redis.call('TIME')
local h=R[1]*1000+math.floor(R[2]/1000)
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
local w=redis.call('PTTL',KEYS[b])
aL[b]=bO or(w>=0 and(D==0 or w<D))
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
const markSlot2Part = `local w=tonumber(ARGV[3])
Y()
if not w or w<=h or d('GET',KEYS[1])~=ARGV[1]then
return{0}
end
d('SET',KEYS[2],ARGV[2],'PX',string.format('%.0f',w-h))
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
const raise2Part = `local v=tonumber(ARGV[2])
if not v or v%1~=0 or v<0 or v>9007199254740991 then
return redis.error_reply('ERR expected a fence')
end
Y()
be(v)
for b=1,#KEYS-1 do
if d('GET',KEYS[b])~=ARGV[1]then
return{0}
end
end
if aT(KEYS[#KEYS])<v then
cf(KEYS[#KEYS],v)
end
return{1}`;
const release1Part = `local l,y,x=ARGV[1],ARGV[2],(#KEYS-1)/2
local o=S('GET',KEYS[1])
local P=S('ZCARD',KEYS[x+1])
if o==l and P==0 and x==1 and#ARGV==3 then
d('DEL',KEYS[1])
return{1}
end
local C,bQ={},false
for b=1,x do
local s=b==1 and o
if b>1 then
s=S('GET',KEYS[b])
P=S('ZCARD',KEYS[x+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bQ=bQ or P~=0
end
for b=1,x do
if C[b]==1 then
d('DEL',KEYS[b])
end
end
if not bQ and#ARGV==3 then
return C
end`;
const release2Part = `local function bP(e,c,cO)
Y()
if y~='0'then
local m=cu(c,l,tonumber(y))
for b=1,#m do
d('ZREM',c,m[b])
end
end
local next=#ARGV>3 and ARGV[4]
local ab=#ARGV>9 and tonumber(ARGV[10])or 0
if next then
bL(ARGV[5])
bN(c,next,ARGV[5],ARGV[6],ARGV[7],ARGV[8],ARGV[9],ab)
end
local ar,aY
if cO>=0 then
ar,aY=bv(e,KEYS[#KEYS],c,next,tonumber(ARGV[3]),cO==1)
end
if ar=='mine'then
return{1,aY,d('ZCOUNT',c,0,'+inf'),h}
elseif next then
local w=ar=='yielding'and aY-h or ar=='none'and 0 or nil
return ac(e,c,next,ARGV[5],ARGV[6],ARGV[7],ARGV[8],ARGV[9],ab,w)
end
end
for b=1,x do
local cc,bs=pcall(bP,KEYS[b],KEYS[x+b],C[b])
if#ARGV>3 then
bs=cc and bs or{0,0,0,0,0,0}
for G=1,#bs do
C[#C+1]=bs[G]
end
end
end
return C`;

const acquireOnceScript: Script = {
  name: 'acquireOnce',
  sha: '7dfa20ba2055fc79bab0c03db6f5ce7888a1ac5a',
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
 * take a lock for a job that runs once a slot, unless it has run in the current slot of this clock.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for any lock
 * @param queue sorted set: the queue of the lock
 * @param slot string: when the slot began, in ms of the epoch, whose job has run; ends with that slot
 * @param token of the caller; a lock that holds it already is ours, and this is a resend
 * @param lifetime ms until the server frees the lock by itself
 * @param notAfter server time in ms after which this request must change nothing
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
 * @param place of a caller to be queued when there is no room: channel, id, ticket (0: it has none yet, -1: it may have one), ms of silence after which it expires (0: by its position); for one of a quorum (channel: empty if it is not to be queued) also the token of its entry, which stays the same while each attempt has a token of its own, and the least that its fence may be; or of a reader that has shared a member: that member alone, beside which there is room for its own
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
  sha: '6090046bfd40d5fd0161dadc23ca50c247db0237',
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
  sha: 'b28e6332b606f12036f0c2e3415bee7a5f4af605',
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
local l,J,t,az,al=ARGV[a+1],ARGV[a+4]~='0',ARGV[a+5],ARGV[a+6],ARGV[a+10]
local V,ae,ax,T=tonumber(ARGV[a+3]),tonumber(ARGV[a+7]),tonumber(ARGV[a+8]),tonumber(ARGV[a+9])
local aD=an>11 and ARGV[a+11]~=''
local bn,v=l,0
if an>14 then
bn,v=ARGV[a+15],tonumber(ARGV[a+16])
end
bL(ARGV[a+2])
local B=tonumber(ARGV[a+2])
local cU=ae and ax and T and ae>=1 and ae%1==0 and string.find('rwp',t,1,true)
if l==''or not V or not cU then
return redis.error_reply('ERR expected a token, a time, a kind, permits and a step')
end
Y()
if h>V then
return{-1,0,0,h}
end
be(v)
local e,r,c,K=KEYS[k+1],KEYS[k+2],KEYS[k+3],KEYS[k+4]
local f=bF(c)
local br=T>0 and t=='w'
local u=cp(br and'u'or t,az)
local y=aD and tonumber(ARGV[a+13])or 0
local H=cv(c,f,bn,y,u)
y=y>aA[1]and y<=A+86400000000 and y or 0
local aq=dn(f)-(H and 1 or 0)
local q={b=br and'u'or t,t=ae,F=az,e=bn,j=al}
q.g=u
q.a=br and bG or H and H.b~='u'and H.a or y
if q.a==0 then
q.a=dg(c,f,q)
end
local ba=aq
if t=='r'and aq>0 and f.i then
for u=1,3 do
for aR,g in ipairs(f[u].h)do
local cX=g.b=='r'and g.j==al and g~=H
ba=ba-(cX and 1 or 0)
end
end
end
local aI,m,i,N=false,nil,nil,0
local cz=T>0 or(t~='p'and cr(K)==l)
if t=='r'and not cz and#f.c==0 and(not H or H.b=='r')then
i=dc(e,l,al,J)
aI=i and cC(c,f,i,q,ax)
end
bz(e,ARGV[a+2])
local E=h+B
local p=string.format('%.0f',E)
if not aI then
local aw=aN(e,cz)
if t=='r'and J and aw.l==0 then
aw=aN(e,true)
end
m,i=aw.d[l],cP(aw,l)
if not m and not aw.i and t=='r'then
local ay=M('r',1,0,J and aw.l or 0,l,al)
local bX=tonumber(d('ZSCORE',e,ay))
m=bX and bX>h and L(ay)
if m then
m.n=bX
end
end
if T>0 and not m then
return{-3,0,0,h}
elseif T>0 and m.w>T then
return{-1,0,0,h}
end
if aw.b and(aw.b=='p')~=(t=='p')then
return redis.error_reply('WRONGTYPE this key is '..(t=='p'and'a readers-writer lock'or'a semaphore'))
end
N=t=='p'and tonumber(d('GET',K)or 0)or 0
local bU=aw.k>0
ai(c,f,3,1)
for b=1,#f[3].h do
bU=bU or f[3].h[b].b=='p'
end
if bU and N~=0 and N~=ax then
return redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f',N,ax))
end
local o=br and m.w<T and ai(c,f,1,1)
if o and o.b=='u'and o.e~=l then
return{-2,0,0,h}
end
E=math.max(E,m and m.n or 0)
p=E==math.huge and'+inf'or string.format('%.0f',E)
if m and(T==0 or m.w==T)then
d('ZADD',e,p,m.f)
m.n=E
aU(c,f,H)
aX(e)
return{1,m.l,ba,h}
end
if T>0 and t=='r'then
x[e]=nil
d('ZREM',e,m.f)
d('ZADD',e,p,M('r',1,T,m.l,l,m.j))
d('SET',K,l,'PX',60000)
aS[K]=l
aU(c,f,H)
aX(e)
bI(e,c,K)
return{1,m.l,ba,h}
end
aI=i.k==0
if not br then
aI=not(t=='p'and dm(i,al))and cC(c,f,i,q,ax)
end
local cq=an==11 and string.find(ARGV[a+11],'^1 r')and tonumber(d('ZSCORE',e,ARGV[a+11]))
aI=aI or cq and cq>h
end
if aI then
local ao=J and t=='r'and i.l or 0
if J and ao==0 then
ao=bA(r,t=='p'and tonumber(ARGV[a+4])or 1,v)
end
local bY=L(M(t,ae,T,ao,l,al))
d('ZADD',e,'GT',p,bY.f)
if m then
d('ZREM',e,m.f)
x[e]=nil
elseif x[e]then
bu(x[e],bY,E)
end
aX(e)
cF(e,bY.f)
if t=='p'then
local n=d('PTTL',e)
d('SET',K,ARGV[a+8],'PX',string.format('%.0f',math.max(n,0)+3600000))
if n<0 then
d('PERSIST',K)
end
end
local cy=#f.c>0
local cZ=H and f.q>0 and H.a>=f.q
aU(c,f,H)
if t=='w'and aq>0 then
d('ZREMRANGEBYSCORE',c,'-inf','(0')
d('ZADD',c,string.format('-%.0f',A),'phase')
f.v,f.q=A,0
elseif H or cy then
cA(c,f)
end
if cy or cZ then
bI(e,c,K)
end
return{1,ao,ba,h}
end
local w=0
for aR,g in pairs(i.d)do
if w==0 or(t=='p')==(g.n-h<w)then
w=g.n-h
end
end
if w==math.huge then
w=-1
end
if not aD then
return{0,w,q.a,h,0,0}
end
local da=not H and y==0 and u==3
local aj=da and aq or di(c,f,q)
local ab=tonumber(ARGV[a+14])
if ab==0 then
ab=2*math.min(math.max(1000,125*(aj+1)),2000)
end
q.p,q.y=ARGV[a+11],ARGV[a+12]
q.f=string.format(
'2 %.0f %s %s %.0f %s %s %d ',
h+math.min(ab,au),
q.y,
q.b,
ae,
az,
q.p,
#bn
)..bn..al
f.o=f.o+d('ZADD',c,string.format('%.0f',bq(q,q.a)),q.f)
d('PEXPIRE',c,au)
if t=='p'and N==0 then
d('SET',K,ARGV[a+8],'PX',3600000)
end
if H and H.f==q.f then
H.f=''
end
aU(c,f,H)
cW(f,q)
return{0,w,q.a,h,aj,0}
end,
extendShared=function(k,a,kn,an)
local D,bO,V=tonumber(ARGV[a+3]),ARGV[a+4]=='1',tonumber(ARGV[a+5])
if not V or not D or D%1~=0 or D<0 or D>9007199254740991 then
return redis.error_reply('ERR expected a time, and a lifetime in whole milliseconds, at least 0')
end
Y()
local e,m,E=KEYS[k+1],ARGV[a+2],nil
E=m~=''and tonumber(d('ZSCORE',e,m))or nil
if not E or E<=h then
local i=bT(e,true)
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
local ck=D==0 and math.huge or h+D
if bO or ck>E then
x[e]=nil
cF(e,m)
d('ZADD',e,ck==math.huge and'+inf'or string.format('%.0f',ck),m)
aX(e)
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
local i=bT(e,true)
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
cw(e,ARGV[a+1])
if E==math.huge then
aX(e)
end
end
if E and string.find(m,'^1 r 1 [1-9]')and cr(KEYS[k+3])==ARGV[a+1]then
d('DEL',KEYS[k+3])
aS[KEYS[k+3]]=nil
end
local function aq()
if ARGV[a+3]~='0'then
local f=bF(c)
aU(c,f,cv(c,f,ARGV[a+1],tonumber(ARGV[a+3])))
elseif C==1 and string.find(m,'^1 r')and d('ZCOUNT',e,string.format('(%.0f',h),'+inf')>1 then
return
end
if d('ZCARD',c)>0 then
bI(e,c,KEYS[k+3])
end
end
pcall(aq)
return{C}
end,
countPermits=function(k,a,kn,an)
Y()
return{aN(KEYS[k+1],true).s}
end,
raiseShared=function(k,a,kn,an)
local v=tonumber(ARGV[a+2])
if not v or v%1~=0 or v<0 or v>9007199254740991 then
return redis.error_reply('ERR expected a fence')
end
Y()
be(v)
local e,m=KEYS[k+1],aN(KEYS[k+1],true).d[ARGV[a+1]]
if not m then
return{0}
end
if aT(KEYS[k+2])<v then
cf(KEYS[k+2],v)
end
if m.b=='w'and m.l<v then
local E=m.n==math.huge and'+inf'or string.format('%.0f',m.n)
d('ZADD',e,E,M(m.b,m.t,m.w,v,m.e,m.j))
d('ZREM',e,m.f)
x[e]=nil
end
return{1}
end,
freeShared=function(k,a,kn,an)
Y()
local e,c,aa,z=KEYS[k+1],KEYS[k+2],ARGV[a+1],0
local cj={}
for l,g in pairs(aN(e,true).d)do
if string.sub(redis.sha1hex(l),1,#aa)==aa then
cj[#cj+1]=g
end
end
for aR,g in ipairs(cj)do
d('ZREM',e,g.f)
cw(e,g.e)
S('PUBLISH',ARGV[a+2],'!'..redis.sha1hex(g.e)..' '..e)
if string.find(g.f,'^1 r 1 [1-9]')then
d('DEL',KEYS[k+3])
aS[KEYS[k+3]]=nil
end
z=z+1
end
if z>0 then
aX(e)
pcall(function()
if d('ZCARD',c)>0 then
bI(e,c,KEYS[k+3])
end
end)
end
return{z}
end,
}
` +
    replyPart +
    `
` +
    dispatchPart +
    `
for b=1,#aH do
pcall(dp,aH[b][1],aH[b][2],aH[b][3])
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
  sha: '78a6be6a5c1e2b528f8184d604e5ada9d883ceb6',
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
local l,B,z,V=ARGV[a+1],ARGV[a+2],tonumber(ARGV[a+4]),tonumber(ARGV[a+3])
if B~=bf then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
bf=B
end
if l==''or not V or not z or z%1~=0 or z<0 or z>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local R=d('TIME')
A=R[1]*1000000+R[2]
h=math.floor(A/1000)
end
if h>V then
return{-1,0,0,h}
end
if kn==3 and z<=1 and bl and S('EXISTS',KEYS[k+1],KEYS[k+2])==0 then
local r=0
if z==1 then
local n=aQ or d('GET',KEYS[k+3])or'0'
local v=(an==5 or an==6)and tonumber(ARGV[a+5])or 0
r=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,v)
end
if r and r<=A+86400000000 and bl('PEXPIRE',KEYS[k+1],B)then
if z==1 then
d('SET',KEYS[k+3],string.format('%.0f',r))
aQ=r
end
d('SETNX',KEYS[k+1],l)
d('PEXPIRE',KEYS[k+1],B)
return(r==A or z==0)and A or{1,r,0,h}
end
end
local x,r,aD=(kn-1)/2,KEYS[k+kn],an>6
local ab=an>7 and tonumber(ARGV[a+8])or 0
local bi,ay,w,bc={},{},0,false
for b=1,x do
local s=d('GET',KEYS[k+b])
if not s then
bi[b]=true
else
local F=d('PTTL',KEYS[k+b])
if s~=l then
bc=true
w=(F<0 or w<0)and-1 or math.max(w,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bc and z>0 and aT(r)or 0
for b=1,bc and 0 or x do
local e,c=KEYS[k+b],KEYS[k+x+b]
if bi[b]and d('ZCARD',c)>0 then
if aD then
bN(c,l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ab)
end
local ar,aY=bv(e,r,c,aD and l,0,false)
if ar=='mine'then
return{1,aY,d('ZCOUNT',c,0,'+inf'),h}
end
if ar=='given'or aD then
bc=true
w=ar=='given'and d('PTTL',e)or ar=='yielding'and aY-h or 0
break
end
end
end
if bc then
if aD then
return ac(KEYS[k+1],KEYS[k+2],l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ab,w)
end
local Q=an==6 and tonumber(ARGV[a+6])or 0
for b=1,Q>0 and x or 0 do
dd(KEYS[k+x+b],Q)
end
return{0,w,0,h}
end
for b=1,x do
if bi[b]then
bz(KEYS[k+b],B)
end
end
local v=(an==5 or an==6)and be(tonumber(ARGV[a+5]))or 0
local o=next(bi)==nil and z>0 and n>0 and n-z+1 or bA(r,z,v)
for b=1,x do
if bi[b]then
cg(KEYS[k+b],l,B)
elseif ay[b]then
d('PEXPIRE',KEYS[k+b],string.format('%.0f',ay[b]))
end
end
return{1,o,aD and d('ZCOUNT',KEYS[k+2],0,'+inf')or 0,h}
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
local l,y,x=ARGV[a+1],ARGV[a+2],(kn-1)/2
local o=S('GET',KEYS[k+1])
local P=S('ZCARD',KEYS[k+x+1])
if o==l and P==0 and x==1 and an==3 then
d('DEL',KEYS[k+1])
return{1}
end
local C,bQ={},false
for b=1,x do
local s=b==1 and o
if b>1 then
s=S('GET',KEYS[k+b])
P=S('ZCARD',KEYS[k+x+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bQ=bQ or P~=0
end
for b=1,x do
if C[b]==1 then
d('DEL',KEYS[k+b])
end
end
if not bQ and an==3 then
return C
end
local function bP(e,c,cO)
Y()
if y~='0'then
local m=cu(c,l,tonumber(y))
for b=1,#m do
d('ZREM',c,m[b])
end
end
local next=an>3 and ARGV[a+4]
local ab=an>9 and tonumber(ARGV[a+10])or 0
if next then
bL(ARGV[a+5])
bN(c,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ab)
end
local ar,aY
if cO>=0 then
ar,aY=bv(e,KEYS[k+kn],c,next,tonumber(ARGV[a+3]),cO==1)
end
if ar=='mine'then
return{1,aY,d('ZCOUNT',c,0,'+inf'),h}
elseif next then
local w=ar=='yielding'and aY-h or ar=='none'and 0 or nil
return ac(e,c,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ab,w)
end
end
for b=1,x do
local cc,bs=pcall(bP,KEYS[k+b],KEYS[k+x+b],C[b])
if an>3 then
bs=cc and bs or{0,0,0,0,0,0}
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
 * how many permits of a semaphore are held. Changes nothing.
 *
 * @param lock sorted set: one member for each holder
 * @returns the call; its reply: [how many]
 */
export function countPermits(lock: string): Call {
  return { script: countPermitsScript, keys: [lock], args: [] };
}

const enlistScript: Script = {
  name: 'enlist',
  sha: '42b341824092a45bd9c581ef7fba65dc000e88dc',
  lua: `local R=redis.call('TIME')
local h=R[1]*1000+math.floor(R[2]/1000)
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
 * @param processes sorted set: the ids of processes, each with the server time in ms at which it expires
 * @param id of the process
 * @param ttl ms after which it expires; 0: now
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
 * @param known its member, as the holder knows it; searched for by token if that is not there
 * @param lifetime ms from now until its end; 0: never
 * @param exact 1: set this end; 0: only ever a later one (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the lock ends for the holder
 * @param as for a writer on a quorum: w; a holder of another kind counts as gone
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
  sha: '90fb086ea2d5d9c6ec3fdd6b430cc5ced295bb0a',
  lua: extend1Part,
};

/**
 * move the end of locks that are still ours. Never makes a key, never touches a stranger's.
 *
 * @param lock string: the holder's token
 * @param token the token that acquired them
 * @param lifetime ms from now until the server frees them; 0: never
 * @param exact 1: set this end; 0: only ever a later one (a renewal must not undo an extension)
 * @param notAfter server time in ms at which its locks end for the holder
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
  sha: 'eb365382d200f881decd64dc95355d7c87e18774',
  lua:
    clockPart +
    `
local s=S('GET',KEYS[1])
if type(s)=='table'then
return string.find(s.err,'WRONGTYPE',1,true)and{-1}or s
end
local bR=s and redis.sha1hex(s)
if not bR or string.sub(bR,1,#ARGV[1])~=ARGV[1]then
return{0}
end
d('DEL',KEYS[1])
S('PUBLISH',ARGV[2],'!'..bR..' '..KEYS[1])
` +
    mintPart +
    `
` +
    queuePart +
    `
local function bP()
Y()
if d('ZCARD',KEYS[2])>0 then
d('ZREM',KEYS[2],'passes')
bv(KEYS[1],KEYS[3],KEYS[2],nil,0,true)
end
end
pcall(bP)
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
  sha: '5a69f4fe1eef16088c615243af92796efe1e4ec0',
  lua: `local R=redis.call('TIME')
local A=R[1]*1000000+R[2]
local h=math.floor(A/1000)
local function dl(e,w)
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
local t,P,aF=string.match(n[1],'^1 ([rwp]) %d+ %d+ %d+ (%d+) (.*)$')
if tonumber(n[2])<=h then
return{false,-2,0,t,{}}
end
local i=redis.call('ZRANGEBYSCORE',e,string.format('(%.0f',h),'+inf','WITHSCORES','LIMIT',0,ARGV[1])
w=n[2]=='inf'and-1 or tonumber(n[2])-h
return{string.sub(aF,1,tonumber(P)),w,0,t,i}
end
local x=(#KEYS-1)/2
local C={A,redis.call('GET',KEYS[#KEYS])}
local ch=0
for b=1,x do
local s=redis.pcall('GETRANGE',KEYS[b],0,4095)
local w=redis.call('PTTL',KEYS[b])
if type(s)=='table'then
s=redis.pcall('GET',KEYS[b])
elseif w==-2 then
s=false
end
local av,aV
if type(s)=='table'then
av,aV=dl(KEYS[b],w)
aV=aV and(string.find(aV,'^FOREIGN')and aV or s.err)
else
av={s,w,0,'m',{}}
end
if av then
av[3]=redis.call('ZCOUNT',KEYS[x+b],0,'+inf')
av[6]=av[3]==0 and{}
or redis.call('ZRANGEBYSCORE',KEYS[x+b],0,'+inf','WITHSCORES','LIMIT',0,ARGV[1])
end
C[b+2]=av or aV
ch=ch+(av and#av[5]+#av[6]or 0)
if ch>4096 then
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
 * @param most how many holders and entries of each lock are listed one by one
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
  sha: 'cc25145f94b64ad48fa5cbfa28fb5bee8faf059f',
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
 * mark the job of a slot as done, if the lock that it ran under is still ours.
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
  sha: 'f3210e1d2b8cf674ee77ef3a02d50a7ca63516c8',
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
local l,B,z,V=ARGV[a+1],ARGV[a+2],tonumber(ARGV[a+4]),tonumber(ARGV[a+3])
if B~=bf then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
bf=B
end
if l==''or not V or not z or z%1~=0 or z<0 or z>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local R=d('TIME')
A=R[1]*1000000+R[2]
h=math.floor(A/1000)
end
if h>V then
return{-1,0,0,h}
end
if kn==3 and z<=1 and bl and S('EXISTS',KEYS[k+1],KEYS[k+2])==0 then
local r=0
if z==1 then
local n=aQ or d('GET',KEYS[k+3])or'0'
local v=(an==5 or an==6)and tonumber(ARGV[a+5])or 0
r=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,v)
end
if r and r<=A+86400000000 and bl('PEXPIRE',KEYS[k+1],B)then
if z==1 then
d('SET',KEYS[k+3],string.format('%.0f',r))
aQ=r
end
d('SETNX',KEYS[k+1],l)
d('PEXPIRE',KEYS[k+1],B)
return(r==A or z==0)and A or{1,r,0,h}
end
end
local x,r,aD=(kn-1)/2,KEYS[k+kn],an>6
local ab=an>7 and tonumber(ARGV[a+8])or 0
local bi,ay,w,bc={},{},0,false
for b=1,x do
local s=d('GET',KEYS[k+b])
if not s then
bi[b]=true
else
local F=d('PTTL',KEYS[k+b])
if s~=l then
bc=true
w=(F<0 or w<0)and-1 or math.max(w,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bc and z>0 and aT(r)or 0
for b=1,bc and 0 or x do
local e,c=KEYS[k+b],KEYS[k+x+b]
if bi[b]and d('ZCARD',c)>0 then
if aD then
bN(c,l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ab)
end
local ar,aY=bv(e,r,c,aD and l,0,false)
if ar=='mine'then
return{1,aY,d('ZCOUNT',c,0,'+inf'),h}
end
if ar=='given'or aD then
bc=true
w=ar=='given'and d('PTTL',e)or ar=='yielding'and aY-h or 0
break
end
end
end
if bc then
if aD then
return ac(KEYS[k+1],KEYS[k+2],l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ab,w)
end
local Q=an==6 and tonumber(ARGV[a+6])or 0
for b=1,Q>0 and x or 0 do
dd(KEYS[k+x+b],Q)
end
return{0,w,0,h}
end
for b=1,x do
if bi[b]then
bz(KEYS[k+b],B)
end
end
local v=(an==5 or an==6)and be(tonumber(ARGV[a+5]))or 0
local o=next(bi)==nil and z>0 and n>0 and n-z+1 or bA(r,z,v)
for b=1,x do
if bi[b]then
cg(KEYS[k+b],l,B)
elseif ay[b]then
d('PEXPIRE',KEYS[k+b],string.format('%.0f',ay[b]))
end
end
return{1,o,aD and d('ZCOUNT',KEYS[k+2],0,'+inf')or 0,h}
end,
extend=function(k,a,kn,an)
` +
    inBatch(extend1Part) +
    `
end,
release=function(k,a,kn,an)
local l,y,x=ARGV[a+1],ARGV[a+2],(kn-1)/2
local o=S('GET',KEYS[k+1])
local P=S('ZCARD',KEYS[k+x+1])
if o==l and P==0 and x==1 and an==3 then
d('DEL',KEYS[k+1])
return{1}
end
local C,bQ={},false
for b=1,x do
local s=b==1 and o
if b>1 then
s=S('GET',KEYS[k+b])
P=S('ZCARD',KEYS[k+x+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bQ=bQ or P~=0
end
for b=1,x do
if C[b]==1 then
d('DEL',KEYS[k+b])
end
end
if not bQ and an==3 then
return C
end
local function bP(e,c,cO)
Y()
if y~='0'then
local m=cu(c,l,tonumber(y))
for b=1,#m do
d('ZREM',c,m[b])
end
end
local next=an>3 and ARGV[a+4]
local ab=an>9 and tonumber(ARGV[a+10])or 0
if next then
bL(ARGV[a+5])
bN(c,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ab)
end
local ar,aY
if cO>=0 then
ar,aY=bv(e,KEYS[k+kn],c,next,tonumber(ARGV[a+3]),cO==1)
end
if ar=='mine'then
return{1,aY,d('ZCOUNT',c,0,'+inf'),h}
elseif next then
local w=ar=='yielding'and aY-h or ar=='none'and 0 or nil
return ac(e,c,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ab,w)
end
end
for b=1,x do
local cc,bs=pcall(bP,KEYS[k+b],KEYS[k+x+b],C[b])
if an>3 then
bs=cc and bs or{0,0,0,0,0,0}
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
local ap,as=KEYS,ARGV
local aE,aW,aL,bJ=tonumber(ARGV[1]),tonumber(ARGV[2]),ARGV[3],ARGV[4]
local B,V,z=ARGV[5],ARGV[6],tonumber(ARGV[7])
local N,r,aP=aE+aW,KEYS[#KEYS],7+aE
local ag,a=(#KEYS-1-N-aW)/2,N+aW
local by=#as>aP+N+ag and aP+N+ag
local ay,H,bH,G={},0,{},0
local function cB(M)
local F=tonumber(M)
return F and F>=1 and F<=9007199254740991 and string.find(M,'^%d+$')
end
local i=N>0 and d('MGET',unpack(ap,1,N))
if ag+aE>0 then
Y()
end
local de=bl and aE>0 and cB(aL)
for b=1,aE do
bH[b]=de and i[b]==as[7+b]and h<=tonumber(as[aP+b])
end
if aW>0 then
H=d('EXISTS',unpack(ap,N+1,a))
for b=aE+1,N do
if i[b]==as[aP+b]and(H==0 or d('EXISTS',ap[aW+b])==0)then
G=G+1
ay[G],bH[b]=ap[b],true
end
end
end
local o,ah=0,false
if ag>0 then
H=d('EXISTS',unpack(ap,a+ag+1,a+2*ag))
local n=z==1 and d('GET',r)or'0'
ah=h<=tonumber(V)and cB(B)
ah=ah and string.find(n,'^%d+$')and tonumber(n)<=A+86400000000
if ah and z==1 then
o=math.max(n+1,A)
n=o+ag-1
for b=1,by and ag or 0 do
local v=tonumber(as[by+b])
ah=ah and v and v<=A+86400000000
n=math.max(b==1 and o or n+1,v or 0)
o=b==1 and n or o
end
ah=ah and not S('SET',r,string.format('%.0f',n)).err
end
end
C,af={N+ag,o,h or 0},3
local function cd(G,dk,bV,...)
KEYS,ARGV=bV,{...}
C[1],C[af+1]=C[1]-1,G
af=af+1
co(pcall(scripts[dk],0,0,#KEYS,#ARGV))
end
local function cm()
for b=1,ag do
local e,c,l=ap[a+b],ap[a+ag+b],as[aP+N+b]
local cY=ah and(H==0 or d('EXISTS',c)==0)
if not cY or not d('SET',e,l,'NX','PX',B)then
local v=by and as[by+b]or nil
cd(N+b,'acquire',{e,c,r},l,B,V,as[7],v)
end
end
end
if not ah then
cm()
end
for b=1,aE do
if not bH[b]or type(S('PEXPIRE',ap[b],aL,'GT'))=='table'then
cd(b,'extend',{ap[b]},as[7+b],aL,'0',as[aP+b])
end
end
local cS=G>0 and S('DEL',unpack(ay))
for b=aE+1,N do
if type(cS)=='table'or not bH[b]then
cd(b,'release',{ap[b],ap[aW+b],r},as[aP+b],'0',bJ)
end
end
if ah then
cm()
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
 * @param token of the locks to renew, then their own notAfter; of those to release, none of which is also acquired here; of those to acquire, then perhaps the least that the fence of each may be
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
  sha: 'f3feb6a25a566c2f17d55c9cc30eabba3b4d5c95',
  lua: `local R=redis.call('TIME')
local h=R[1]*1000+math.floor(R[2]/1000)
local aK=redis.call('ZRANGEBYSCORE',KEYS[1],string.format('(%.0f',h),'+inf')
table.insert(aK,1,h)
return aK`,
};

/**
 * which processes have written down what they hold. Changes nothing.
 *
 * @param processes sorted set: the ids of processes, each with the server time in ms at which it expires
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
 * write the leader beside its lock, if that is still ours, and notify observers.
 *
 * @param lock string: the holder's token
 * @param value string: the leader, as its process wrote it
 * @param token the token that acquired the lock
 * @param text the leader; '': there is none from now on
 * @param ttl ms for which it is kept
 * @param channel that of the observers
 * @param message what is published there
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
  sha: '5f743588e4d71184dadd153766b27f5b53192c67',
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
 * the holder of a lock, and the value beside it. Changes nothing.
 *
 * @param lock string: the holder's token
 * @param value string: the value beside it
 * @returns the call; its reply: [token or nil, ms left (-1 never ends, -2 free), text or nil]
 */
export function readHolder(lock: string, value: string): ScriptCall {
  return { script: readHolderScript, keys: [lock, value], args: [] };
}

const readPlacesScript: Script = {
  name: 'readPlaces',
  sha: '8c0f5e3c9a1c603f36116775d5e2fddf8a84db58',
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
local bm={}
for aR,g in pairs(aN(KEYS[1],true).d)do
bm[#bm+1]=g.j
end
return bm`,
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
 * @param ttl ms after which it expires
 * @returns the call; its reply: [1 done | 0 there was nothing that could stay as before]
 */
export function register(process: string, text: string | number, ttl: string | number): ScriptCall {
  return { script: registerScript, keys: [process], args: [String(text), String(ttl)] };
}

const releaseSharedScript = {
  name: 'releaseShared',
};

/**
 * stop being one of a lock's holders, or leave its queue, and notify waiters that can then be admitted.
 *
 * @param lock sorted set: one member for each holder
 * @param queue sorted set: the queue of the lock
 * @param limit string: how many permits the lock has
 * @param token the holder's
 * @param known the member, as the holder knows it; searched for by token if that is not there
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
  sha: 'f9b056eecfb3b153311603751f5185dd4f6a5fcd',
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
