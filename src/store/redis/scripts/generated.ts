// Made by `npm run generate` from the .lua files beside it; do not edit.

// biome-ignore-all lint/style/useTemplate: the text between two parts may be a line end only

import { type BatchableCall, inBatch, type Script, type ScriptCall } from './script';

const clockPart = `local KEYS,ARGV,tonumber=KEYS,ARGV,tonumber
local c,T,bk=redis.call,redis.pcall,redis.acl_check_cmd
local A,h,be,aQ`;
const dispatchPart = `local cK={}
local bV,ba=0,0
while ba<#ARGV do
local N=ARGV[ba+1]
local aG=cK[N]
if not aG then
local dd,bU,cP=string.match(N,'^(%a+) (%d+) (%d+)$')
aG={scripts[dd],tonumber(bU),tonumber(cP)}
cK[N]=aG
end
cn(pcall(aG[1],bV,ba+1,aG[2],aG[3]))
bV,ba=bV+aG[2],ba+1+aG[3]
end`;
const holdersPart = `local t,be,aR={},{},{}
local Z=16
local function bi(N)
return string.find(N,'^1 [rwp] %d+ %d+ %d+ %d+ .')~=nil
end
local function cH()
error('FOREIGN this sorted set has a member that is not of redis-exp-lock, or of another version of it',0)
end
local function M(N)
local u,ah,V,q,R,aF=string.match(N,'^1 ([rwp]) (%d+) (%d+) (%d+) (%d+) (.+)$')
if not u then
return nil
end
R=tonumber(R)
return{
b=u,
t=tonumber(ah),
w=tonumber(V),
l=tonumber(q),
e=string.sub(aF,1,R),
j=string.sub(aF,R+1),
f=N,
}
end
local function N(u,ah,V,q,l,at)
return string.format('1 %s %.0f %.0f %.0f %d ',u,ah,V,q,#l)..l..at
end
local function bJ(i,g)
i.b,i.j=g.b,g.j
i.k,i.s=i.k+1,i.s+g.t
end
local function bt(i,g,E)
g.n=E
i.d[g.e]=g
i.l=math.max(i.l,g.l)
bJ(i,g)
end
local function bY()
return{d={},k=0,s=0,l=0,i=true}
end
local function bs(e)
local P=be[e]
if not P then
local j=c('ZRANGE',e,0,Z-1,'WITHSCORES')
P={c={},C=#j==2*Z,m=false}
for b=1,#j,2 do
if not bi(j[b])then
P.m=true
elseif tonumber(j[b+1])<=h then
P.c[#P.c+1]=j[b]
end
end
if P.C then
local al=A%c('ZCARD',e)
local cM=c('ZRANGE',e,al,al+Z-1)
for b=1,#cM do
P.m=P.m or not bi(cM[b])
end
end
be[e]=P
end
return P
end
local function cE(e,bw)
local P=bs(e)
if P.D then
return
elseif P.m or#P.c==Z then
local am={'1 r 1 0 0 0 '}
for b=1,#P.c do
am[b+1]=P.c[b]~=bw and P.c[b]or am[1]
end
c('ZREM',e,unpack(am))
else
c('ZREMRANGEBYSCORE',e,'-inf',string.format('%.0f',h))
end
P.D=true
end
local function bS(e,f)
local i=t[e]
if i and(i.i or not f)then
return i
end
i=bY()
local aB=string.format('(%.0f',h)
local j=c('ZRANGEBYSCORE',e,aB,'+inf','WITHSCORES','LIMIT',0,Z)
if#j==2*Z and(f or string.sub(j[1],1,3)=='1 p')then
j=c('ZRANGEBYSCORE',e,aB,'+inf','WITHSCORES')
elseif#j==2*Z then
i.i=false
j=c('ZRANGE',e,'+inf',aB,'BYSCORE','REV','LIMIT',0,Z,'WITHSCORES')
end
for b=1,#j,2 do
local g=M(j[b])
if g then
bt(i,g,tonumber(j[b+1]))
else
i.m=true
end
end
t[e]=i
return i
end
local function aN(e,f)
local i=bS(e,f)
if i.m or bs(e).m then
cH()
end
return i
end
local function da(e,l,at,cS)
if t[e]then
return nil
end
local j=c('ZRANGE',e,-1,-1,'WITHSCORES')
local n=j[1]and tonumber(j[2])>h and M(j[1])
if not n or n.b~='r'or n.j~=at or n.e==l or(cS and n.l==0)then
return nil
end
if bs(e).m then
cH()
end
local i=bY()
bt(i,n,tonumber(j[2]))
return i
end
local function cO(i,l)
if not i.d[l]then
return i
end
local ag=bY()
ag.i,ag.m=i.i,i.m
for aq,g in pairs(i.d)do
if aq~=l then
bt(ag,g,g.n)
end
end
return ag
end
local function dk(i,bl)
for df in string.gmatch(bl,'%d+')do
for aZ,g in pairs(i.d)do
if string.find(g.j,','..df..',',1,true)then
return true
end
end
end
return false
end
local function cv(e,l)
local i=t[e]
t[e]=i and i.i and cO(i,l)or nil
end
local function cq(K)
if aR[K]==nil then
aR[K]=c('GET',K)or false
end
return aR[K]
end
local function aW(e)
local n=c('ZRANGE',e,-1,-1,'WITHSCORES')
if not n[1]or not bi(n[1])then
return
end
if n[2]=='inf'then
c('PERSIST',e)
else
local F=math.max(tonumber(n[2])-h,1)
if not bs(e).m or c('PTTL',e)<F then
c('PEXPIRE',e,string.format('%.0f',F))
end
end
end`;
const mintPart = `local function aa()
if not h then
local L=c('TIME')
A=L[1]*1000000+L[2]
h=math.floor(A/1000)
end
end
local function bK(N)
local F=tonumber(N)
if not F or F<1 or F>9007199254740991 or not string.find(N,'^%d+$')then
error('ERR expected a lifetime in whole milliseconds, at least 1',0)
end
end
local function bA(e,B)
if bk and not bk('PEXPIRE',e,B)then
error('NOPERM this user has no permissions to run PEXPIRE on a lock',0)
end
end
local function bd(q)
if not q or q>9007199254740991 or q>A+86400000000 then
error('FENCE the fence counter of this server is no number, or more than a day ahead of the clock',0)
end
return q
end
local function aS(q)
if not aQ then
local n=c('GET',q)
aQ=n and bd(string.find(n,'^%d+$')and tonumber(n))or 0
end
return aQ
end
local function ce(q,n)
c('SET',q,string.format('%.0f',n))
aQ=n
end
local function bB(q,z,w)
if z==0 then
return 0
end
local o=math.max(aS(q)+1,A,w or 0)
ce(q,o+z-1)
return o
end
local function cf(e,l,B)
c('SETNX',e,l)
local cJ=T('PEXPIRE',e,B)
if type(cJ)=='table'then
c('DEL',e)
error(cJ.err,0)
end
end`;
const queuePart = `local au,bz=10000,1000
local function cr(d,M)
local aY=string.match(M,'^(%d+) ')
if aY and aY~='1'then
if c('PTTL',d)<0 then
c('PEXPIRE',d,au)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock',0)
end
return aY
end
local function bf(d,M)
local ab,ac,D,J,as,l=
string.match(cr(d,M)and M or'','^1 (%d+) (%S+) (%d+) (%d+) (%S+) (.+)$')
ab,J=tonumber(ab),tonumber(J)
if not ab or ab<h or ab>h+au or J>1024 then
return nil
end
local F=tonumber(D)
if F>=1 and F<=9007199254740991 then
return ac,D,J,as,l
end
end
local function ct(d,l,y)
local j
if y>0 then
j=c('ZRANGEBYSCORE',d,y,y,'WITHSCORES')
else
j=c('ZRANGE',d,'+inf',0,'BYSCORE','REV','LIMIT',0,256,'WITHSCORES')
end
local m={}
for b=1,#j,2 do
if cr(d,j[b])and string.match(j[b],'^1 %d+ %S+ %d+ %d+ %S+ (.+)$')==l then
m[#m+1]=j[b]
y=tonumber(j[b+1])
end
end
return m,y
end
local function bM(d,l,D,J,as,ac,y,ad)
local cd=A+86400000000
local p=tonumber(y)
local m
m,p=ct(d,l,p<=cd and p or 0)
for b=1,#m do
c('ZREM',d,m[b])
end
if p<=0 or p>cd then
local n=c('ZRANGE',d,-1,-1,'WITHSCORES')
while n[1]and tonumber(n[2])>cd do
c('ZREM',d,n[1])
n=c('ZRANGE',d,-1,-1,'WITHSCORES')
end
p=math.max(A,(tonumber(n[2])or 0)+1)
end
local al=string.format('%.0f',p)
local Q=c('ZCOUNT',d,0,'('..al)
local F=math.max(2*math.min(math.max(1000,125*(Q+1)),2000),math.min(ad,au))
local ab=string.format('%.0f',h+F)
c('ZADD',d,al,table.concat({'1',ab,ac,D,J,as,l},' '))
c('PEXPIRE',d,au)
return p,Q
end
local function cD(M,p)
local Y,W=string.match(M,'^poll (%d+) (%d+)$')
Y,W=tonumber(Y),tonumber(W)
if Y and Y<=h and W>=h and W<=h+au and-p<=bz then
return-p,Y,W
end
end
local function db(d,S)
S=math.ceil(S)
if S>bz or c('ZCARD',d)==0 then
return
end
local Y,W=h,h+2*S+100
local j=c('ZRANGEBYSCORE',d,'-inf','(0','WITHSCORES')
for b=1,#j,2 do
local aM,o,n=nil,nil,nil
if string.sub(j[b],1,5)=='poll 'then
aM,o,n=cD(j[b],tonumber(j[b+1]))
end
if aM then
Y=math.min(Y,o)
if aM>S then
S,W=aM,n
end
end
end
local aC=string.format('poll %.0f %.0f',Y,W)
T('ZADD',d,string.format('-%.0f',math.max(S,1)),aC)
for b=1,#j,2 do
if string.sub(j[b],1,5)=='poll 'and j[b]~=aC then
T('ZREM',d,j[b])
end
end
end
local function cU(d)
local o,aJ,W,S,Y,aC=nil,0,0,0,h,nil
local am,aB={},0
repeat
local j=c('ZRANGE',d,aB,aB+32,'WITHSCORES')
for b=1,#j,2 do
local M,p=j[b],tonumber(j[b+1])
if p>=0 then
o=bf(d,M)and M
if o then
break
end
am[#am+1]=M
elseif M=='passes'then
aJ=p>=-1000000 and-p or 0
W=aJ==0 and-p<=h+2*bz and-p or 0
else
local aM,cQ=cD(M,p)
if aM then
S,Y,aC=aM,cQ,M
else
am[#am+1]=M
end
end
end
aB=aB+33
until o or#j<66 or#am>=2048
if#am>0 then
c('ZREM',d,unpack(am))
end
return o,aJ,W,S,Y,aC
end
local function bu(e,q,d,m,bI,cw)
local o,aJ,W,S,Y,aC=cU(d)
if not o then
if c('ZCOUNT',d,0,'+inf')==0 then
c('DEL',d)
end
return'none'
end
if W>h then
return'yielding',W
end
local ac,D,J,as,l=bf(d,o)
local ck=math.max(math.min(bI,bz),S>0 and S+20 or 0)
if cw and bI>0 and(aJ>=64 or(S>0 and h-Y>=8*ck))then
c('ZADD',d,string.format('-%.0f',h+ck),'passes')
if aC then
c('ZREM',d,aC)
end
if l~=m then
T('PUBLISH',as,ac..' '..e)
end
return'yielding',h+ck
end
local B=l==m and D or string.format('%.0f',math.min(tonumber(D),2000))
bA(e,B)
if J>0 then
aS(q)
end
if cw then
c('ZADD',d,-(aJ+1),'passes')
elseif aJ+W>0 then
c('ZREM',d,'passes')
end
c('ZREM',d,o)
local ap=bB(q,J)
cf(e,l,B)
if l==m then
return'mine',ap
end
T('PUBLISH',as,ac..'='..string.format('%.0f',ap)..' '..e)
return'given'
end
local function bi(l)
return#l>=36 and string.sub(l,-4)==string.sub(l,-36,-33)
end
local function ae(e,d,l,D,J,as,ac,y,ad,x)
local s=c('GET',e)
local p,Q=bM(d,l,D,J,as,ac,y,ad)
return{0,x or c('PTTL',e),p,h,Q,s and not bi(s)and 1 or 0}
end`;
const replyPart = `local C,ai={},0
local function cn(cb,ae)
if type(ae)=='number'then
ae={ae}
end
if cb and not ae.err then
local z=#ae
C[ai+1]=z
for b=1,z do
C[ai+1+b]=ae[b]
end
ai=ai+1+z
else
C[ai+1]=-1
C[ai+2]=type(ae)=='table'and ae.err or ae
ai=ai+2
end
end`;
const waitersPart = `local cF,aH={},{}
local au,by=10000,32
local aA,dh={1e15,5e14,0},500000
local function co(u,az)
if u=='u'or(u=='r'and az=='r')then
return 1
end
return u=='w'and az=='w'and 2 or 3
end
local bF=1
local function bp(g,y)
return g.b=='u'and bF or y-aA[g.g]
end
local function bf(d,j,p)
local aY=string.match(j,'^(%d+) ')
if aY and aY~='2'then
if c('PTTL',d)<0 then
c('PEXPIRE',d,au)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock',0)
end
local ab,ac,u,ah,az,as,R,aF=
string.match(j,'^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.+)$')
ab,R=tonumber(ab),tonumber(R)
if not ab or ab<h or ab>h+au or R<1 or R>#aF then
return nil
end
local g={
b=u,
g=co(u,az),
t=tonumber(ah),
F=az,
p=as,
y=ac,
e=string.sub(aF,1,R),
j=string.sub(aF,R+1),
f=j,
}
g.a=u=='u'and bF or p+aA[g.g]
return g.a<=A+86400000000 and g or nil
end
local function cs(v)
local bj=v>1 and string.format('%.0f',A-(aA[v-1]+aA[v])/2)or'0'
local bR=v<3 and string.format('(%.0f',A-(aA[v]+aA[v+1])/2)or'+inf'
return bj,bR
end
local function cG(d,f,j)
for b=1,#j,2 do
local p=tonumber(j[b+1])
local g=p>=0 and bf(d,j[b],p)
f.o=f.o-(p<0 and 1 or 0)
if j[b]=='phase'and-p<=A then
f.v=-p
elseif j[b]=='told'then
f.q=-p
elseif g then
local ao=f[g.g].h
ao[#ao+1]=g
f[g.g].z=p
f.d[g.e]=f.d[g.e]or g
elseif p>=0 then
f.c[#f.c+1]=j[b]
end
end
end
local function bE(d)
local f=cF[d]
if f then
return f
end
f={v=0,q=0,r=0,d={},c={}}
for v=1,3 do
local bj,bR=cs(v)
f[v]={h={},A=bj,x=bR}
end
f.o=c('ZCARD',d)
f.i=f.o<=Z+2
local j=f.o==0 and{}
or c('ZRANGEBYSCORE',d,'-inf',f.i and'+inf'or'(0','WITHSCORES','LIMIT',0,Z+2)
cG(d,f,j)
for v=1,3 do
f[v].u=not f.i
end
cF[d]=f
return f
end
local function al(d,f,v,G)
local H=f[v]
while G>#H.h and H.u and#f.c<2048 do
local z=G==1 and math.min(Z,3)or Z
local j=c('ZRANGEBYSCORE',d,H.A,H.x,'WITHSCORES','LIMIT',0,z)
H.u=#j==2*z
if#j>0 then
H.A='('..j[#j]
end
cG(d,f,j)
end
return H.h[G]
end
local function cu(d,f,l,y,bC)
local g=f.d[l]
for v=bC or 1,(g or f.i or y==0)and 0 or bC or 3 do
local j
if y>0 then
local p=y==bF and y or y-aA[v]
j=c('ZRANGEBYSCORE',d,p,p,'WITHSCORES')
else
j=c('ZRANGE',d,f[v].x,'0','BYSCORE','REV','LIMIT',0,4*Z,'WITHSCORES')
end
for b=1,#j,2 do
local ca=string.find(j[b],l,1,true)and bf(d,j[b],tonumber(j[b+1]))
g=ca and ca.e==l and ca or g
end
end
return g
end
local function dl(f)
return f.o-#f.c
end
local function de(d,f,r)
local n=f.i and 0 or f.r
for v=1,3 do
local ao=f[v].h
n=math.max(n,ao[#ao]and ao[#ao].a or 0)
end
local H=f[r.g]
if not f.i and not H.r then
local j=c('ZRANGE',d,H.x,'0','BYSCORE','REV','LIMIT',0,1,'WITHSCORES')
local y=(tonumber(j[2])or 0)+aA[r.g]
H.r=y<=A+86400000000 and y or 0
end
n=math.max(n,H.r or 0)
return math.max(A,n+1)
end
local function dg(d,f,r)
local p=bp(r,r.a)
if not f.i then
return c('ZCOUNT',d,0,string.format('(%.0f',p))
end
local Q=0
for v=1,r.g do
for aZ,g in ipairs(f[v].h)do
if g.e~=r.e and bp(g,g.a)<p then
Q=Q+1
end
end
end
return Q
end
local function cV(f,g)
local H,p=f[g.g],bp(g,g.a)
f.r=math.max(f.r,g.a)
if H.u and not(H.z and p<=H.z)then
return
end
local G=#H.h+1
while G>1 and H.h[G-1].a>g.a do
G=G-1
end
table.insert(H.h,G,g)
f.d[g.e]=g
end
local function aT(d,f,g)
if g or#f.c>0 then
f.o=f.o-c('ZREM',d,g and g.f or f.c[1],unpack(f.c))
f.c={}
end
if g then
local ao=f[g.g].h
for G=1,#ao do
if ao[G]==g then
table.remove(ao,G)
break
end
end
f.d[g.e]=nil
end
end
local function cz(d,f)
if f.i and#f[1].h+#f[2].h+#f[3].h==0 then
c('DEL',d)
f.v,f.q=0,0
return true
end
end`;
const wakePart = `local function cC(d,f,af,r)
local bv={}
for v=1,3 do
local g=al(d,f,v,af[v])
while g and r and g.e==r.e do
af[v]=af[v]+1
g=al(d,f,v,af[v])
end
if r and r.g==v and not af.B and(not g or r.a<g.a)then
g=r
end
bv[v]=g
end
local bn,o,bD=bv[1],bv[2],bv[3]
if bD and(not o or(bD.a<=f.v and bD.a<o.a))then
o=bD
end
local cZ=bn and o and(o.a>bn.a or A-o.a<=dh)
if bn and(not o or cZ or bn.b=='u')then
o=bn
end
if o and o==r then
af.B=true
elseif o then
af[o.g]=af[o.g]+1
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
local function cB(d,f,i,r,ax)
local bo,af=cI(i),{1,1,1}
local o,H,p=al(d,f,r.g,1),f[r.g],bp(r,r.a)
if o and H.u and p>H.z then
local bj=cs(r.g)
if c('ZCOUNT',d,bj,string.format('(%.0f',p))-#f.c>=by then
return false
end
end
for aZ=1,by do
local g=cC(d,f,af,r)
if not g or not cm(bo,g,ax)then
return false
elseif g==r then
return true
end
bJ(bo,g)
end
return false
end
local function bH(e,d,K)
local f=bE(d)
aT(d,f)
if not cz(d,f)and not aH[e]then
aH[e]=true
aH[#aH+1]={e,d,K}
end
end
local function dm(e,d,K)
local f,af=bE(d),{1,1,1}
local bo=cI(aN(e))
local ax=tonumber(c('GET',K)or 0)or 0
local aK,bc,n={},{},0
for G=1,by do
local g=cC(d,f,af)
if not g or not cm(bo,g,ax)then
break
end
bJ(bo,g)
n=G==by and g.a or 0
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
c('ZADD',d,string.format('-%.0f',n),'told')
elseif f.q>0 then
c('ZREM',d,'told')
end
f.q=n
end`;
const acquireOnce1Part = `local l,B,X,J=ARGV[1],ARGV[2],tonumber(ARGV[3]),tonumber(ARGV[4])
local bg,bZ=tonumber(ARGV[5]),tonumber(ARGV[6])
bK(B)
if l==''or not X or not J or not bg or bg<1 or not bZ then
return redis.error_reply('ERR expected a token, a moment, how many fences, and a slot')
end
aa()
if h>X then
return{-1,0,0,h}
end
local e,q,d,cL=KEYS[1],KEYS[2],KEYS[3],KEYS[4]
local s=c('GET',e)
local ch=math.floor((h-bZ)/bg)*bg+bZ
local bL=tonumber(c('GET',cL)or'')
if s~=l and bL and bL>=ch and bL<=h then
return{-4,0,0,h}
end
if s and s~=l then
return{0,c('PTTL',e),0,h}
end
if not s and c('ZCARD',d)>0 and bu(e,q,d,false,0,false)=='given'then
return{0,c('PTTL',e),0,h}
end
bA(e,B)
local ap=s and J>0 and aS(q)or 0
if ap==0 then
ap=bB(q,J)
end
if ARGV[7]=='1'then
c('SET',cL,string.format('%.0f',ch),'PX',string.format('%.0f',ch+bg-h))
end
if not s then
cf(e,l,B)
else
c('PEXPIRE',e,string.format('%.0f',math.max(c('PTTL',e),tonumber(B))))
end
return{1,ap,0,h}`;
const acquire1Part = `local l,B,z,X=ARGV[1],ARGV[2],tonumber(ARGV[4]),tonumber(ARGV[3])
if B~=be then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
be=B
end
if l==''or not X or not z or z%1~=0 or z<0 or z>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local L=c('TIME')
A=L[1]*1000000+L[2]
h=math.floor(A/1000)
end
if h>X then
return{-1,0,0,h}
end
if#KEYS==3 and z<=1 and bk and T('EXISTS',KEYS[1],KEYS[2])==0 then
local q=0
if z==1 then
local n=aQ or c('GET',KEYS[3])or'0'
local w=(#ARGV==5 or#ARGV==6)and tonumber(ARGV[5])or 0
q=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,w)
end
if q and q<=A+86400000000 and bk('PEXPIRE',KEYS[1],B)then
if z==1 then
c('SET',KEYS[3],string.format('%.0f',q))
aQ=q
end
c('SETNX',KEYS[1],l)
c('PEXPIRE',KEYS[1],B)
return(q==A or z==0)and A or{1,q,0,h}
end
end`;
const acquire2Part = `local t,q,aD=(#KEYS-1)/2,KEYS[#KEYS],#ARGV>6
local ad=#ARGV>7 and tonumber(ARGV[8])or 0
local bh,ay,x,bb={},{},0,false
for b=1,t do
local s=c('GET',KEYS[b])
if not s then
bh[b]=true
else
local F=c('PTTL',KEYS[b])
if s~=l then
bb=true
x=(F<0 or x<0)and-1 or math.max(x,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bb and z>0 and aS(q)or 0
for b=1,bb and 0 or t do
local e,d=KEYS[b],KEYS[t+b]
if bh[b]and c('ZCARD',d)>0 then
if aD then
bM(d,l,B,ARGV[4],ARGV[5],ARGV[6],ARGV[7],ad)
end
local aq,aX=bu(e,q,d,aD and l,0,false)
if aq=='mine'then
return{1,aX,c('ZCOUNT',d,0,'+inf'),h}
end
if aq=='given'or aD then
bb=true
x=aq=='given'and c('PTTL',e)or aq=='yielding'and aX-h or 0
break
end
end
end
if bb then
if aD then
return ae(KEYS[1],KEYS[2],l,B,ARGV[4],ARGV[5],ARGV[6],ARGV[7],ad,x)
end
local S=#ARGV==6 and tonumber(ARGV[6])or 0
for b=1,S>0 and t or 0 do
db(KEYS[t+b],S)
end
return{0,x,0,h}
end
for b=1,t do
if bh[b]then
bA(KEYS[b],B)
end
end
local w=(#ARGV==5 or#ARGV==6)and bd(tonumber(ARGV[5]))or 0
local o=next(bh)==nil and z>0 and n>0 and n-z+1 or bB(q,z,w)
for b=1,t do
if bh[b]then
cf(KEYS[b],l,B)
elseif ay[b]then
c('PEXPIRE',KEYS[b],string.format('%.0f',ay[b]))
end
end
return{1,o,aD and c('ZCOUNT',KEYS[2],0,'+inf')or 0,h}`;
const extend1Part = `local D,bN=tonumber(ARGV[2]),ARGV[3]=='1'
if not D or D%1~=0 or D<0 or D>9007199254740991 then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')
end
local L=redis.call('TIME')
local h=L[1]*1000+math.floor(L[2]/1000)
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
local x=redis.call('PTTL',KEYS[b])
aL[b]=bN or(x>=0 and(D==0 or x<D))
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
const markSlot2Part = `local x=tonumber(ARGV[3])
aa()
if not x or x<=h or c('GET',KEYS[1])~=ARGV[1]then
return{0}
end
c('SET',KEYS[2],ARGV[2],'PX',string.format('%.0f',x-h))
return{1}`;
const publishValue1Part = `if redis.call('GET',KEYS[1])~=ARGV[1]then
return{0}
end
if ARGV[2]==''then
redis.call('DEL',KEYS[2])
else
redis.call('SET',KEYS[2],ARGV[2],'PX',ARGV[3])
end
redis.pcall('PUBLISH',ARGV[4],ARGV[5])
return{1}`;
const raiseFence2Part = `local w=tonumber(ARGV[2])
if not w or w%1~=0 or w<0 or w>9007199254740991 then
return redis.error_reply('ERR expected a fence')
end
aa()
bd(w)
for b=1,#KEYS-1 do
if c('GET',KEYS[b])~=ARGV[1]then
return{0}
end
end
if aS(KEYS[#KEYS])<w then
ce(KEYS[#KEYS],w)
end
return{1}`;
const release1Part = `local l,y,t=ARGV[1],ARGV[2],(#KEYS-1)/2
local o=T('GET',KEYS[1])
local R=T('ZCARD',KEYS[t+1])
if o==l and R==0 and t==1 and#ARGV==3 then
c('DEL',KEYS[1])
return 1
end
local C,bP={},false
for b=1,t do
local s=b==1 and o
if b>1 then
s=T('GET',KEYS[b])
R=T('ZCARD',KEYS[t+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bP=bP or R~=0
end
for b=1,t do
if C[b]==1 then
c('DEL',KEYS[b])
end
end
if not bP and#ARGV==3 then
return C
end`;
const release2Part = `local function bO(e,d,cN)
aa()
if y~='0'then
local m=ct(d,l,tonumber(y))
for b=1,#m do
c('ZREM',d,m[b])
end
end
local next=#ARGV>3 and ARGV[4]
local ad=#ARGV>9 and tonumber(ARGV[10])or 0
if next then
bK(ARGV[5])
bM(d,next,ARGV[5],ARGV[6],ARGV[7],ARGV[8],ARGV[9],ad)
end
local aq,aX
if cN>=0 then
aq,aX=bu(e,KEYS[#KEYS],d,next,tonumber(ARGV[3]),cN==1)
end
if aq=='mine'then
return{1,aX,c('ZCOUNT',d,0,'+inf'),h}
elseif next then
local x=aq=='yielding'and aX-h or aq=='none'and 0 or nil
return ae(e,d,next,ARGV[5],ARGV[6],ARGV[7],ARGV[8],ARGV[9],ad,x)
end
end
for b=1,t do
local cb,br=pcall(bO,KEYS[b],KEYS[t+b],C[b])
if#ARGV>3 then
br=cb and br or{0,0,0,0,0,0}
for G=1,#br do
C[#C+1]=br[G]
end
end
end
return C`;

const acquireOnceScript: Script = {
  name: 'acquireOnce',
  sha: 'ca69e4cc852e2ca2334b78c18447beb94ce6b043',
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
 * take a lock for a job that runs once a slot, unless the job has run in the current slot of this clock.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for any lock
 * @param queue sorted set: the queue of the lock
 * @param slot string: the start, in ms of the epoch, of the slot whose job has run; the key ends with that slot
 * @param token the caller's token; a lock that holds it already is ours, and this is a resend
 * @param lifetime ms until the server frees the lock by itself
 * @param notAfter server time in ms after which this request must change nothing
 * @param fences 1: mint a fence; 0: none
 * @param every the length of a slot, in ms
 * @param offset the start of any slot, in ms of the epoch
 * @param marks 1: the slot counts as done from now on; 0: a later mark-slot says so
 * @returns the call; its reply: [1 granted, fence, 0, server time in ms | 0 busy, ms left to the holder (-1: no end), 0, server time | -1 too late, 0, 0, server time | -4 done, 0, 0, server time]
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
 * become a holder of a lock if its other holders and its queue leave room; or be queued; or change in place.
 *
 * @param lock sorted set: one member for each holder
 * @param fence string: the last fence minted for any lock
 * @param queue sorted set: the queue of the lock
 * @param limit string: the number of permits of the lock
 * @param token the caller's token; a member with it is ours, and this is a resend
 * @param lifetime ms until our member ends by itself
 * @param notAfter server time in ms after which this request must change nothing
 * @param fences the number of fences to mint; more than 1 for permits that are handed off; 0: none
 * @param kind r reader, w writer, p permits
 * @param prefer w writers first, r readers first, f in order of arrival
 * @param permits the number of permits wanted
 * @param most the number of permits of the lock
 * @param step 0: a new holder; otherwise the number of this change in place: r downgrades, w upgrades
 * @param group readers of one group share; for permits on a quorum: the places that are wanted: ",0,3,"
 * @param place for a caller to be queued when there is no room: channel, id, ticket (0: none yet, -1: perhaps one), ms of silence after which its entry expires (0: by its position); on a node of a quorum (channel: empty if the caller is not to be queued) also the token of the entry, which stays the same while each attempt has a token of its own, and the minimum fence; for a reader that has shared a member: only that member, beside which there is room for the reader's own
 * @returns the call; its reply: [1 granted, fence, number of others queued, server time in ms | 0 no room, ms until there may be room (-1: unknown), ticket, server time, position, 0 | -1 too late, 0, 0, server time | -2 another reader is upgrading, 0, 0, server time | -3 the holder that should change is gone, 0, 0, server time]
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
): BatchableCall {
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
  sha: '2a3bc10ef4f8b702f42cc010b36bacc7a64f58fe',
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
 * @param token the caller's token; a lock that holds it already is ours, and this is a resend
 * @param lifetime ms until the server frees the locks by itself
 * @param notAfter server time in ms after which this request must change nothing
 * @param fences the number of fences to mint: 0 none; more than 1 for a queue that hands the lock off by itself
 * @param place for a process to be queued when the lock is busy (one lock): channel, id, ticket (0: none yet), and optionally the ms of silence after which its entry expires (default: by its position); for others: the minimum fence (0: any), and then, for a polling caller, the ms until its next request
 * @returns the call; its reply: the fence, if it is the server's time in µs, of a single lock that was free | [1 granted, first fence, number of others queued, server time in ms | 0 busy, ms left to the holders (-1: no end), ticket, server time; for a queued process also its position, and 1 if the holder's release wakes nobody | -1 too late, 0, 0, server time]
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
  sha: '1f648938065dd7c4f7e8dbc0e68afe6ed45e6a43',
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
local l,J,u,az,at=ARGV[a+1],ARGV[a+4]~='0',ARGV[a+5],ARGV[a+6],ARGV[a+10]
local X,ah,ax,V=tonumber(ARGV[a+3]),tonumber(ARGV[a+7]),tonumber(ARGV[a+8]),tonumber(ARGV[a+9])
local aD=an>11 and ARGV[a+11]~=''
local bm,w=l,0
if an>14 then
bm,w=ARGV[a+15],tonumber(ARGV[a+16])
end
bK(ARGV[a+2])
local B=tonumber(ARGV[a+2])
local cT=ah and ax and V and ah>=1 and ah%1==0 and string.find('rwp',u,1,true)
if l==''or not X or not cT then
return redis.error_reply('ERR expected a token, a time, a kind, permits and a step')
end
aa()
if h>X then
return{-1,0,0,h}
end
bd(w)
local e,q,d,K=KEYS[k+1],KEYS[k+2],KEYS[k+3],KEYS[k+4]
local f=bE(d)
local bq=V>0 and u=='w'
local v=co(bq and'u'or u,az)
local y=aD and tonumber(ARGV[a+13])or 0
local I=cu(d,f,bm,y,v)
y=y>aA[1]and y<=A+86400000000 and y or 0
local ag=dl(f)-(I and 1 or 0)
local r={b=bq and'u'or u,t=ah,F=az,e=bm,j=at}
r.g=v
r.a=bq and bF or I and I.b~='u'and I.a or y
if r.a==0 then
r.a=de(d,f,r)
end
local aI,m,i,O=false,nil,nil,0
local cy=V>0 or(u~='p'and cq(K)==l)
if u=='r'and not cy and#f.c==0 and(not I or I.b=='r')then
i=da(e,l,at,J)
aI=i and cB(d,f,i,r,ax)
end
bA(e,ARGV[a+2])
local E=h+B
local p=string.format('%.0f',E)
if not aI then
local aw=aN(e,cy)
if u=='r'and J and aw.l==0 then
aw=aN(e,true)
end
m,i=aw.d[l],cO(aw,l)
if not m and not aw.i and u=='r'then
local ay=N('r',1,0,J and aw.l or 0,l,at)
local bW=tonumber(c('ZSCORE',e,ay))
m=bW and bW>h and M(ay)
if m then
m.n=bW
end
end
if V>0 and not m then
return{-3,0,0,h}
elseif V>0 and m.w>V then
return{-1,0,0,h}
end
if aw.b and(aw.b=='p')~=(u=='p')then
return redis.error_reply('WRONGTYPE this key is '..(u=='p'and'a readers-writer lock'or'a semaphore'))
end
O=u=='p'and tonumber(c('GET',K)or 0)or 0
local bT=aw.k>0
al(d,f,3,1)
for b=1,#f[3].h do
bT=bT or f[3].h[b].b=='p'
end
if bT and O~=0 and O~=ax then
return redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f',O,ax))
end
local o=bq and m.w<V and al(d,f,1,1)
if o and o.b=='u'and o.e~=l then
return{-2,0,0,h}
end
E=math.max(E,m and m.n or 0)
p=E==math.huge and'+inf'or string.format('%.0f',E)
if m and(V==0 or m.w==V)then
c('ZADD',e,p,m.f)
m.n=E
aT(d,f,I)
aW(e)
return{1,m.l,ag,h}
end
if V>0 and u=='r'then
t[e]=nil
c('ZREM',e,m.f)
c('ZADD',e,p,N('r',1,V,m.l,l,m.j))
c('SET',K,l,'PX',60000)
aR[K]=l
aT(d,f,I)
aW(e)
bH(e,d,K)
return{1,m.l,ag,h}
end
aI=i.k==0
if not bq then
aI=not(u=='p'and dk(i,at))and cB(d,f,i,r,ax)
end
local cp=an==11 and string.find(ARGV[a+11],'^1 r')and tonumber(c('ZSCORE',e,ARGV[a+11]))
aI=aI or cp and cp>h
end
if aI then
local ap=J and u=='r'and i.l or 0
if J and ap==0 then
ap=bB(q,u=='p'and tonumber(ARGV[a+4])or 1,w)
end
local bX=M(N(u,ah,V,ap,l,at))
c('ZADD',e,'GT',p,bX.f)
if m then
c('ZREM',e,m.f)
t[e]=nil
elseif t[e]then
bt(t[e],bX,E)
end
aW(e)
cE(e,bX.f)
if u=='p'then
local n=c('PTTL',e)
c('SET',K,ARGV[a+8],'PX',string.format('%.0f',math.max(n,0)+3600000))
if n<0 then
c('PERSIST',K)
end
end
local cx=#f.c>0
local cX=I and f.q>0 and I.a>=f.q
aT(d,f,I)
if u=='w'and ag>0 then
c('ZREMRANGEBYSCORE',d,'-inf','(0')
c('ZADD',d,string.format('-%.0f',A),'phase')
f.v,f.q=A,0
elseif I or cx then
cz(d,f)
end
if cx or cX then
bH(e,d,K)
end
return{1,ap,ag,h}
end
local x=0
for aZ,g in pairs(i.d)do
if x==0 or(u=='p')==(g.n-h<x)then
x=g.n-h
end
end
if x==math.huge then
x=-1
end
if not aD then
return{0,x,r.a,h,0,0}
end
local cY=not I and y==0 and v==3
local Q=cY and ag or dg(d,f,r)
local ad=tonumber(ARGV[a+14])
if ad==0 then
ad=2*math.min(math.max(1000,125*(Q+1)),2000)
end
r.p,r.y=ARGV[a+11],ARGV[a+12]
r.f=string.format(
'2 %.0f %s %s %.0f %s %s %d ',
h+math.min(ad,au),
r.y,
r.b,
ah,
az,
r.p,
#bm
)..bm..at
f.o=f.o+c('ZADD',d,string.format('%.0f',bp(r,r.a)),r.f)
c('PEXPIRE',d,au)
if u=='p'and O==0 then
c('SET',K,ARGV[a+8],'PX',3600000)
end
if I and I.f==r.f then
I.f=''
end
aT(d,f,I)
cV(f,r)
return{0,x,r.a,h,Q,0}
end,
extendShared=function(k,a,kn,an)
local D,bN,X=tonumber(ARGV[a+3]),ARGV[a+4]=='1',tonumber(ARGV[a+5])
if not X or not D or D%1~=0 or D<0 or D>9007199254740991 then
return redis.error_reply('ERR expected a time, and a lifetime in whole milliseconds, at least 0')
end
aa()
local e,m,E=KEYS[k+1],ARGV[a+2],nil
E=m~=''and tonumber(c('ZSCORE',e,m))or nil
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
if h>X then
return{-2,h}
end
local cj=D==0 and math.huge or h+D
if bN or cj>E then
t[e]=nil
cE(e,m)
c('ZADD',e,cj==math.huge and'+inf'or string.format('%.0f',cj),m)
aW(e)
if string.find(m,'^1 p')then
local bw=c('PTTL',e)
if bw<0 then
c('PERSIST',KEYS[k+2])
else
c('PEXPIRE',KEYS[k+2],string.format('%.0f',bw+3600000))
end
end
end
return{1,h}
end,
releaseShared=function(k,a,kn,an)
aa()
local e,d,m=KEYS[k+1],KEYS[k+2],ARGV[a+2]
local E=m~=''and tonumber(c('ZSCORE',e,m))or nil
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
c('ZREM',e,m)
cv(e,ARGV[a+1])
if E==math.huge then
aW(e)
end
end
if E and string.find(m,'^1 r 1 [1-9]')and cq(KEYS[k+3])==ARGV[a+1]then
c('DEL',KEYS[k+3])
aR[KEYS[k+3]]=nil
end
local function ag()
if ARGV[a+3]~='0'then
local f=bE(d)
aT(d,f,cu(d,f,ARGV[a+1],tonumber(ARGV[a+3])))
elseif C==1 and string.find(m,'^1 r')and c('ZCOUNT',e,string.format('(%.0f',h),'+inf')>1 then
return
end
if c('ZCARD',d)>0 then
bH(e,d,KEYS[k+3])
end
end
pcall(ag)
return{C}
end,
countPermits=function(k,a,kn,an)
aa()
return{aN(KEYS[k+1],true).s}
end,
raiseFenceShared=function(k,a,kn,an)
local w=tonumber(ARGV[a+2])
if not w or w%1~=0 or w<0 or w>9007199254740991 then
return redis.error_reply('ERR expected a fence')
end
aa()
bd(w)
local e,m=KEYS[k+1],aN(KEYS[k+1],true).d[ARGV[a+1]]
if not m then
return{0}
end
if aS(KEYS[k+2])<w then
ce(KEYS[k+2],w)
end
if m.b=='w'and m.l<w then
local E=m.n==math.huge and'+inf'or string.format('%.0f',m.n)
c('ZADD',e,E,N(m.b,m.t,m.w,w,m.e,m.j))
c('ZREM',e,m.f)
t[e]=nil
end
return{1}
end,
freeShared=function(k,a,kn,an)
aa()
local e,d,ac,z=KEYS[k+1],KEYS[k+2],ARGV[a+1],0
local ci={}
for l,g in pairs(aN(e,true).d)do
if string.sub(redis.sha1hex(l),1,#ac)==ac then
ci[#ci+1]=g
end
end
for aZ,g in ipairs(ci)do
c('ZREM',e,g.f)
cv(e,g.e)
T('PUBLISH',ARGV[a+2],'!'..redis.sha1hex(g.e)..' '..e)
if string.find(g.f,'^1 r 1 [1-9]')then
c('DEL',KEYS[k+3])
aR[KEYS[k+3]]=nil
end
z=z+1
end
if z>0 then
aW(e)
pcall(function()
if c('ZCARD',d)>0 then
bH(e,d,KEYS[k+3])
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
pcall(dm,aH[b][1],aH[b][2],aH[b][3])
end
return C`,
};

/**
 * run calls with a mode, as batch does. A single call is a batch of one.
 *
 * @param key the keys of all calls, one after the other
 * @param part for each call: its script, its number of keys and its number of arguments, in one text; then its arguments
 * @returns the call; its reply: [for each call its number of integers, then these integers; or -1 and the text of its error]
 */
export function batchShared(key: readonly string[], part: readonly string[]): ScriptCall {
  return { script: batchSharedScript, keys: key, args: part };
}

const batchScript: Script = {
  name: 'batch',
  sha: 'c72107157e7723f85c33caae0369ef7e0206a2bb',
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
local l,B,z,X=ARGV[a+1],ARGV[a+2],tonumber(ARGV[a+4]),tonumber(ARGV[a+3])
if B~=be then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
be=B
end
if l==''or not X or not z or z%1~=0 or z<0 or z>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local L=c('TIME')
A=L[1]*1000000+L[2]
h=math.floor(A/1000)
end
if h>X then
return{-1,0,0,h}
end
if kn==3 and z<=1 and bk and T('EXISTS',KEYS[k+1],KEYS[k+2])==0 then
local q=0
if z==1 then
local n=aQ or c('GET',KEYS[k+3])or'0'
local w=(an==5 or an==6)and tonumber(ARGV[a+5])or 0
q=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,w)
end
if q and q<=A+86400000000 and bk('PEXPIRE',KEYS[k+1],B)then
if z==1 then
c('SET',KEYS[k+3],string.format('%.0f',q))
aQ=q
end
c('SETNX',KEYS[k+1],l)
c('PEXPIRE',KEYS[k+1],B)
return(q==A or z==0)and A or{1,q,0,h}
end
end
local t,q,aD=(kn-1)/2,KEYS[k+kn],an>6
local ad=an>7 and tonumber(ARGV[a+8])or 0
local bh,ay,x,bb={},{},0,false
for b=1,t do
local s=c('GET',KEYS[k+b])
if not s then
bh[b]=true
else
local F=c('PTTL',KEYS[k+b])
if s~=l then
bb=true
x=(F<0 or x<0)and-1 or math.max(x,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bb and z>0 and aS(q)or 0
for b=1,bb and 0 or t do
local e,d=KEYS[k+b],KEYS[k+t+b]
if bh[b]and c('ZCARD',d)>0 then
if aD then
bM(d,l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ad)
end
local aq,aX=bu(e,q,d,aD and l,0,false)
if aq=='mine'then
return{1,aX,c('ZCOUNT',d,0,'+inf'),h}
end
if aq=='given'or aD then
bb=true
x=aq=='given'and c('PTTL',e)or aq=='yielding'and aX-h or 0
break
end
end
end
if bb then
if aD then
return ae(KEYS[k+1],KEYS[k+2],l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ad,x)
end
local S=an==6 and tonumber(ARGV[a+6])or 0
for b=1,S>0 and t or 0 do
db(KEYS[k+t+b],S)
end
return{0,x,0,h}
end
for b=1,t do
if bh[b]then
bA(KEYS[k+b],B)
end
end
local w=(an==5 or an==6)and bd(tonumber(ARGV[a+5]))or 0
local o=next(bh)==nil and z>0 and n>0 and n-z+1 or bB(q,z,w)
for b=1,t do
if bh[b]then
cf(KEYS[k+b],l,B)
elseif ay[b]then
c('PEXPIRE',KEYS[k+b],string.format('%.0f',ay[b]))
end
end
return{1,o,aD and c('ZCOUNT',KEYS[k+2],0,'+inf')or 0,h}
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
publishValue=function(k,a,kn,an)
` +
    inBatch(publishValue1Part) +
    `
end,
release=function(k,a,kn,an)
local l,y,t=ARGV[a+1],ARGV[a+2],(kn-1)/2
local o=T('GET',KEYS[k+1])
local R=T('ZCARD',KEYS[k+t+1])
if o==l and R==0 and t==1 and an==3 then
c('DEL',KEYS[k+1])
return 1
end
local C,bP={},false
for b=1,t do
local s=b==1 and o
if b>1 then
s=T('GET',KEYS[k+b])
R=T('ZCARD',KEYS[k+t+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bP=bP or R~=0
end
for b=1,t do
if C[b]==1 then
c('DEL',KEYS[k+b])
end
end
if not bP and an==3 then
return C
end
local function bO(e,d,cN)
aa()
if y~='0'then
local m=ct(d,l,tonumber(y))
for b=1,#m do
c('ZREM',d,m[b])
end
end
local next=an>3 and ARGV[a+4]
local ad=an>9 and tonumber(ARGV[a+10])or 0
if next then
bK(ARGV[a+5])
bM(d,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ad)
end
local aq,aX
if cN>=0 then
aq,aX=bu(e,KEYS[k+kn],d,next,tonumber(ARGV[a+3]),cN==1)
end
if aq=='mine'then
return{1,aX,c('ZCOUNT',d,0,'+inf'),h}
elseif next then
local x=aq=='yielding'and aX-h or aq=='none'and 0 or nil
return ae(e,d,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ad,x)
end
end
for b=1,t do
local cb,br=pcall(bO,KEYS[k+b],KEYS[k+t+b],C[b])
if an>3 then
br=cb and br or{0,0,0,0,0,0}
for G=1,#br do
C[#C+1]=br[G]
end
end
end
return C
end,
raiseFence=function(k,a,kn,an)
` +
    inBatch(raiseFence2Part) +
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
 * @param part for each call: its script, its number of keys and its number of arguments, in one text; then its arguments
 * @returns the call; its reply: [for each call its number of integers, then these integers; or -1 and the text of its error]
 */
export function batch(key: readonly string[], part: readonly string[]): ScriptCall {
  return { script: batchScript, keys: key, args: part };
}

const countPermitsScript = {
  name: 'countPermits',
};

/**
 * the number of permits of a semaphore that are held. Changes nothing.
 *
 * @param lock sorted set: one member for each holder
 * @returns the call; its reply: [the number]
 */
export function countPermits(lock: string): BatchableCall {
  return { script: countPermitsScript, keys: [lock], args: [] };
}

const extendSharedScript = {
  name: 'extendShared',
};

/**
 * move the end of a holder that is still there. Never makes a holder, never touches another one.
 *
 * @param lock sorted set: one member for each holder
 * @param limit string: the number of permits of the lock
 * @param token the holder's token
 * @param known the holder's member, as the holder knows it; if it is not there, the member is searched for by token
 * @param lifetime ms from now until the holder's end; 0: no end
 * @param exact 1: set this end; 0: only move the end later (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the lock ends for the holder
 * @param as for a writer on a quorum: w; a holder of another kind counts as gone
 * @returns the call; its reply: [1 extended | 0 gone | -1 lost: others hold the lock, beside whom this holder cannot be | -2 too late: nothing was changed, server time in ms]
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
): BatchableCall {
  return {
    script: extendSharedScript,
    keys: [lock, limit],
    args: [String(token), String(known), String(lifetime), String(exact), String(notAfter), ...as],
  };
}

const extendScript: Script = {
  name: 'extend',
  sha: '32bb8b417adf24031e4bfe995f962d8e713470bf',
  lua: extend1Part,
};

/**
 * move the end of locks that are still ours. Never makes a key, never touches the lock of another token.
 *
 * @param lock string: the holder's token
 * @param token the token that acquired the locks
 * @param lifetime ms from now until the server frees the locks; 0: no end
 * @param exact 1: set this end; 0: only move the end later (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the locks end for the holder
 * @returns the call; its reply: [1 extended | 0 gone | -1 held by another token | -2 too late: nothing was changed, server time in ms]
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
 * for an operator, take a lock with a mode away from one of its holders, or from all, and wake its queue.
 *
 * @param lock sorted set: one member for each holder
 * @param queue sorted set: the queue of the lock
 * @param limit string: the number of permits of the lock
 * @param id the first characters of the SHA-1 of the holder's token; '': all holders
 * @param channel the channel on which a holder hears that it lost the lock
 * @returns the call; its reply: [the number of holders that lost the lock]
 */
export function freeShared(
  lock: string,
  queue: string,
  limit: string,
  id: string | number,
  channel: string | number,
): BatchableCall {
  return { script: freeSharedScript, keys: [lock, queue, limit], args: [String(id), String(channel)] };
}

const freeScript: Script = {
  name: 'free',
  sha: 'd4d4aeca8cd646691bd82aee7b89e2153bc62c48',
  lua:
    clockPart +
    `
local s=T('GET',KEYS[1])
if type(s)=='table'then
return string.find(s.err,'WRONGTYPE',1,true)and{-1}or s
end
local bQ=s and redis.sha1hex(s)
if not bQ or string.sub(bQ,1,#ARGV[1])~=ARGV[1]then
return{0}
end
c('DEL',KEYS[1])
T('PUBLISH',ARGV[2],'!'..bQ..' '..KEYS[1])
` +
    mintPart +
    `
` +
    queuePart +
    `
local function bO()
aa()
if c('ZCARD',KEYS[2])>0 then
c('ZREM',KEYS[2],'passes')
bu(KEYS[1],KEYS[3],KEYS[2],nil,0,true)
end
end
pcall(bO)
return{1}`,
};

/**
 * for an operator, take a lock away from its holder, and hand it off to its queue.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock
 * @param fence string: the last fence minted for any lock
 * @param id the first characters of the SHA-1 of the holder's token; '': any holder
 * @param channel the channel on which the holder hears that it lost the lock
 * @returns the call; its reply: [1 freed | 0 not held, or held by another: nothing was changed | -1 the lock has a mode: nothing was changed]
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
  sha: '0ba9297563c608ec9e45595f5253b4eb8352a793',
  lua: `local L=redis.call('TIME')
local A=L[1]*1000000+L[2]
local h=math.floor(A/1000)
local function dj(e,x)
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
local u,R,aF=string.match(n[1],'^1 ([rwp]) %d+ %d+ %d+ (%d+) (.*)$')
if tonumber(n[2])<=h then
return{false,-2,0,u,{}}
end
local i=redis.call('ZRANGEBYSCORE',e,string.format('(%.0f',h),'+inf','WITHSCORES','LIMIT',0,ARGV[1])
x=n[2]=='inf'and-1 or tonumber(n[2])-h
return{string.sub(aF,1,tonumber(R)),x,0,u,i}
end
local t=(#KEYS-1)/2
local C={A,redis.call('GET',KEYS[#KEYS])}
local cg=0
for b=1,t do
local s=redis.pcall('GETRANGE',KEYS[b],0,4095)
local x=redis.call('PTTL',KEYS[b])
if type(s)=='table'then
s=redis.pcall('GET',KEYS[b])
elseif x==-2 then
s=false
end
local av,aU
if type(s)=='table'then
av,aU=dj(KEYS[b],x)
aU=aU and(string.find(aU,'^FOREIGN')and aU or s.err)
else
av={s,x,0,'m',{}}
end
if av then
av[3]=redis.call('ZCOUNT',KEYS[t+b],0,'+inf')
av[6]=av[3]==0 and{}
or redis.call('ZRANGEBYSCORE',KEYS[t+b],0,'+inf','WITHSCORES','LIMIT',0,ARGV[1])
end
C[b+2]=av or aU
cg=cg+(av and#av[5]+#av[6]or 0)
if cg>4096 then
break
end
end
return C`,
};

/**
 * the state of locks in Redis. Changes nothing.
 *
 * @param lock string: the holder's token; or a sorted set of its holders
 * @param queue sorted set: the queue of the lock in the same place
 * @param fence string: the last fence minted for any lock
 * @param most the maximum number of holders, and of queue entries, of each lock that are listed individually
 * @returns the call; its reply: [server time in µs, last fence or nil, then, for each of the first locks (for all of them if they are not very long), the text of an error, or a list: token or nil, ms left (-1 no end, -2 free), number of queued entries, m for a mutex or the kind of its holders r, w, p, [holder, its end, …], [queue entry, its score, …]]
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
  sha: '4b56868ca8cbd951c03328940ccf5ceda010344e',
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
 * mark the job of a slot as done, if the lock under which it ran is still ours.
 *
 * @param lock string: the holder's token
 * @param slot string: the start, in ms of the epoch, of the slot whose job has run; the key ends with that slot
 * @param token the token that acquired the lock
 * @param start the start of the slot, in ms of the epoch
 * @param stop the end of the slot
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
  sha: '7667ab433827b93c2fd986ec735c7ab398cc9e51',
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
local l,B,z,X=ARGV[a+1],ARGV[a+2],tonumber(ARGV[a+4]),tonumber(ARGV[a+3])
if B~=be then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
be=B
end
if l==''or not X or not z or z%1~=0 or z<0 or z>1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not h then
local L=c('TIME')
A=L[1]*1000000+L[2]
h=math.floor(A/1000)
end
if h>X then
return{-1,0,0,h}
end
if kn==3 and z<=1 and bk and T('EXISTS',KEYS[k+1],KEYS[k+2])==0 then
local q=0
if z==1 then
local n=aQ or c('GET',KEYS[k+3])or'0'
local w=(an==5 or an==6)and tonumber(ARGV[a+5])or 0
q=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,w)
end
if q and q<=A+86400000000 and bk('PEXPIRE',KEYS[k+1],B)then
if z==1 then
c('SET',KEYS[k+3],string.format('%.0f',q))
aQ=q
end
c('SETNX',KEYS[k+1],l)
c('PEXPIRE',KEYS[k+1],B)
return(q==A or z==0)and A or{1,q,0,h}
end
end
local t,q,aD=(kn-1)/2,KEYS[k+kn],an>6
local ad=an>7 and tonumber(ARGV[a+8])or 0
local bh,ay,x,bb={},{},0,false
for b=1,t do
local s=c('GET',KEYS[k+b])
if not s then
bh[b]=true
else
local F=c('PTTL',KEYS[k+b])
if s~=l then
bb=true
x=(F<0 or x<0)and-1 or math.max(x,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bb and z>0 and aS(q)or 0
for b=1,bb and 0 or t do
local e,d=KEYS[k+b],KEYS[k+t+b]
if bh[b]and c('ZCARD',d)>0 then
if aD then
bM(d,l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ad)
end
local aq,aX=bu(e,q,d,aD and l,0,false)
if aq=='mine'then
return{1,aX,c('ZCOUNT',d,0,'+inf'),h}
end
if aq=='given'or aD then
bb=true
x=aq=='given'and c('PTTL',e)or aq=='yielding'and aX-h or 0
break
end
end
end
if bb then
if aD then
return ae(KEYS[k+1],KEYS[k+2],l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ad,x)
end
local S=an==6 and tonumber(ARGV[a+6])or 0
for b=1,S>0 and t or 0 do
db(KEYS[k+t+b],S)
end
return{0,x,0,h}
end
for b=1,t do
if bh[b]then
bA(KEYS[k+b],B)
end
end
local w=(an==5 or an==6)and bd(tonumber(ARGV[a+5]))or 0
local o=next(bh)==nil and z>0 and n>0 and n-z+1 or bB(q,z,w)
for b=1,t do
if bh[b]then
cf(KEYS[k+b],l,B)
elseif ay[b]then
c('PEXPIRE',KEYS[k+b],string.format('%.0f',ay[b]))
end
end
return{1,o,aD and c('ZCOUNT',KEYS[k+2],0,'+inf')or 0,h}
end,
extend=function(k,a,kn,an)
` +
    inBatch(extend1Part) +
    `
end,
release=function(k,a,kn,an)
local l,y,t=ARGV[a+1],ARGV[a+2],(kn-1)/2
local o=T('GET',KEYS[k+1])
local R=T('ZCARD',KEYS[k+t+1])
if o==l and R==0 and t==1 and an==3 then
c('DEL',KEYS[k+1])
return 1
end
local C,bP={},false
for b=1,t do
local s=b==1 and o
if b>1 then
s=T('GET',KEYS[k+b])
R=T('ZCARD',KEYS[k+t+b])
end
if type(s)=='table'and not string.find(s.err,'WRONGTYPE',1,true)then
return s
end
C[b]=not s and 0 or s==l and 1 or-1
bP=bP or R~=0
end
for b=1,t do
if C[b]==1 then
c('DEL',KEYS[k+b])
end
end
if not bP and an==3 then
return C
end
local function bO(e,d,cN)
aa()
if y~='0'then
local m=ct(d,l,tonumber(y))
for b=1,#m do
c('ZREM',d,m[b])
end
end
local next=an>3 and ARGV[a+4]
local ad=an>9 and tonumber(ARGV[a+10])or 0
if next then
bK(ARGV[a+5])
bM(d,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ad)
end
local aq,aX
if cN>=0 then
aq,aX=bu(e,KEYS[k+kn],d,next,tonumber(ARGV[a+3]),cN==1)
end
if aq=='mine'then
return{1,aX,c('ZCOUNT',d,0,'+inf'),h}
elseif next then
local x=aq=='yielding'and aX-h or aq=='none'and 0 or nil
return ae(e,d,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ad,x)
end
end
for b=1,t do
local cb,br=pcall(bO,KEYS[k+b],KEYS[k+t+b],C[b])
if an>3 then
br=cb and br or{0,0,0,0,0,0}
for G=1,#br do
C[#C+1]=br[G]
end
end
end
return C
end,
}
` +
    replyPart +
    `
local U,ar=KEYS,ARGV
local aE,aV,aL,bI=tonumber(ARGV[1]),tonumber(ARGV[2]),ARGV[3],ARGV[4]
local B,X,z=ARGV[5],ARGV[6],tonumber(ARGV[7])
local O,q,aP=aE+aV,KEYS[#KEYS],7+aE
local aj,a=(#KEYS-1-O-aV)/2,O+aV
local bx=#ar>aP+O+aj and aP+O+aj
local ay,I,bG,G={},0,{},0
local function cA(N)
local F=tonumber(N)
return F and F>=1 and F<=9007199254740991 and string.find(N,'^%d+$')
end
local i=O>0 and c('MGET',unpack(U,1,O))
if aj+aE>0 then
aa()
end
local dc=bk and aE>0 and cA(aL)
for b=1,aE do
bG[b]=dc and i[b]==ar[7+b]and h<=tonumber(ar[aP+b])
end
if aV>0 then
I=c('EXISTS',unpack(U,O+1,a))
for b=aE+1,O do
if i[b]==ar[aP+b]and(I==0 or c('EXISTS',U[aV+b])==0)then
G=G+1
ay[G],bG[b]=U[b],true
end
end
end
local o,ak=0,false
if aj>0 then
I=c('EXISTS',unpack(U,a+aj+1,a+2*aj))
local n=z==1 and c('GET',q)or'0'
ak=h<=tonumber(X)and cA(B)
ak=ak and string.find(n,'^%d+$')and tonumber(n)<=A+86400000000
if ak and z==1 then
o=math.max(n+1,A)
n=o+aj-1
for b=1,bx and aj or 0 do
local w=tonumber(ar[bx+b])
ak=ak and w and w<=A+86400000000
n=math.max(b==1 and o or n+1,w or 0)
o=b==1 and n or o
end
ak=ak and not T('SET',q,string.format('%.0f',n)).err
end
end
C,ai={O+aj,o,h or 0},3
local function cc(G,di,bU,...)
KEYS,ARGV=bU,{...}
C[1],C[ai+1]=C[1]-1,G
ai=ai+1
cn(pcall(scripts[di],0,0,#KEYS,#ARGV))
end
local function cl()
for b=1,aj do
local e,d,l=U[a+b],U[a+aj+b],ar[aP+O+b]
local cW=ak and(I==0 or c('EXISTS',d)==0)
if not cW or not c('SET',e,l,'NX','PX',B)then
local w=bx and ar[bx+b]or nil
cc(O+b,'acquire',{e,d,q},l,B,X,ar[7],w)
end
end
end
if not ak then
cl()
end
for b=1,aE do
if not bG[b]or type(T('PEXPIRE',U[b],aL,'GT'))=='table'then
cc(b,'extend',{U[b]},ar[7+b],aL,'0',ar[aP+b])
end
end
local cR=G>0 and T('DEL',unpack(ay))
for b=aE+1,O do
if type(cR)=='table'or not bG[b]then
cc(b,'release',{U[b],U[aV+b],q},ar[aP+b],'0',bI)
end
end
if ak then
cl()
end
return C`,
};

/**
 * renew locks, release locks, then acquire locks, each by itself and all on equal terms, as nearly all calls of a tick are.
 *
 * @param key the locks to renew; the locks to release, then their queues; the locks to acquire, then their queues
 * @param fence string: the last fence minted for any lock
 * @param renewals the number of locks to renew
 * @param releases the number of locks to release
 * @param later ms from now until the server frees the renewed locks; a lock that lasts longer already stays as it is
 * @param window ms for which the released locks yield, when it is the turn of callers outside the queue
 * @param lifetime ms until the server frees the acquired locks by itself
 * @param notAfter server time in ms after which the acquires must change nothing
 * @param fences 1: mint a fence for each; 0: none
 * @param token the tokens of the locks to renew, then the notAfter of each; the tokens of the locks to release, none of which is also acquired here; the tokens of the locks to acquire, then optionally the minimum fence of each
 * @returns the call; its reply: [number of calls that went as usual, first fence of the acquires or 0, server time in ms or 0; for each other call its position, then its number of integers and these integers, or -1 and the text of its error]
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
  sha: 'bb8d81603ffebfe40d78ae8c7af5fb9a1da771bc',
  lua: `local L=redis.call('TIME')
local h=L[1]*1000+math.floor(L[2]/1000)
local aK=redis.call('ZRANGEBYSCORE',KEYS[1],string.format('(%.0f',h),'+inf')
table.insert(aK,1,h)
return aK`,
};

/**
 * the processes that have a record. Changes nothing.
 *
 * @param processes sorted set: the ids of processes, each with the server time in ms at which its entry expires
 * @returns the call; its reply: [server time in ms, then the ids]
 */
export function processes(processes: string): ScriptCall {
  return { script: processesScript, keys: [processes], args: [] };
}

const publishValueScript: Script = {
  name: 'publishValue',
  sha: '6e5abc9a275d70734c12b5db0900409a4e533fbe',
  lua: publishValue1Part,
};

/**
 * write the leader beside its lock, if the lock is still ours, and notify observers.
 *
 * @param lock string: the holder's token
 * @param value string: the leader, as its process wrote it
 * @param token the token that acquired the lock
 * @param text the leader; '': no leader from now on
 * @param ttl ms for which the text is kept
 * @param channel the channel of the observers
 * @param message the message to the observers
 * @returns the call; its reply: [1 written | 0 the lock is no longer ours: nothing changed]
 */
export function publishValue(
  lock: string,
  value: string,
  token: string | number,
  text: string | number,
  ttl: string | number,
  channel: string | number,
  message: string | number,
): ScriptCall {
  return {
    script: publishValueScript,
    keys: [lock, value],
    args: [String(token), String(text), String(ttl), String(channel), String(message)],
  };
}

const raiseFenceSharedScript = {
  name: 'raiseFenceShared',
};

/**
 * as raise-fence, for a lock with a mode, while the token is one of its holders. Also raises a writer's own fence, which readers share after its downgrade; but not a reader's own: its resent request finds its member by the fence.
 *
 * @param lock sorted set: one member for each holder
 * @param fence string: the last fence minted for any lock
 * @param token the holder's token
 * @param least the fence that every later one must exceed
 * @returns the call; its reply: [1 the last fence is at least `least` | 0 the token holds nothing: nothing was changed]
 */
export function raiseFenceShared(
  lock: string,
  fence: string,
  token: string | number,
  least: string | number,
): BatchableCall {
  return { script: raiseFenceSharedScript, keys: [lock, fence], args: [String(token), String(least)] };
}

const raiseFenceScript: Script = {
  name: 'raiseFence',
  sha: '95374e22a762fff42fceb99affc767cf0c12d2f8',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    raiseFence2Part,
};

/**
 * raise the last fence to at least `least`, while locks are still ours. For a node of a quorum.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for any lock
 * @param token the token that acquired the locks
 * @param least the fence that every later one must exceed
 * @returns the call; its reply: [1 the last fence is at least `least` | 0 not all locks are ours: nothing was changed]
 */
export function raiseFence(
  lock: readonly string[],
  fence: string,
  token: string | number,
  least: string | number,
): ScriptCall {
  return { script: raiseFenceScript, keys: [...lock, fence], args: [String(token), String(least)] };
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
 * @param value string: the value beside the lock
 * @returns the call; its reply: [token or nil, ms left (-1 no end, -2 free), text or nil]
 */
export function readHolder(lock: string, value: string): ScriptCall {
  return { script: readHolderScript, keys: [lock, value], args: [] };
}

const readPlacesScript: Script = {
  name: 'readPlaces',
  sha: '65321be162f00415637b87ea517ba7adf1fda94d',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    holdersPart +
    `
aa()
local bl={}
for aZ,g in pairs(aN(KEYS[1],true).d)do
bl[#bl+1]=g.j
end
return bl`,
};

/**
 * the places of a semaphore on a quorum that are taken at this node. Changes nothing.
 *
 * @param lock sorted set: one member for each holder
 * @returns the call; its reply: [for each holder its places: ",0,3,"]
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
 * the record of a process. Changes nothing.
 *
 * @param process string: the record, as JSON
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
 * the value cached beside a lock. Changes nothing.
 *
 * @param value string: the last value
 * @returns the call; its reply: the text, or nil
 */
export function readValue(value: string): ScriptCall {
  return { script: readValueScript, keys: [value], args: [] };
}

const registerProcessScript: Script = {
  name: 'registerProcess',
  sha: 'd30c5d9aff9619b26f06a3d5c8a62b6e722b7378',
  lua: `local L=redis.call('TIME')
local h=L[1]*1000+math.floor(L[2]/1000)
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
 * add a process with a record to the list of processes, or take it off the list.
 *
 * @param processes sorted set: the ids of processes, each with the server time in ms at which its entry expires
 * @param id the id of the process
 * @param ttl ms after which the entry expires; 0: now
 * @param channel the channel on which a change is published; '': nothing changed
 * @returns the call; its reply: [1]
 */
export function registerProcess(
  processes: string,
  id: string | number,
  ttl: string | number,
  channel: string | number,
): ScriptCall {
  return { script: registerProcessScript, keys: [processes], args: [String(id), String(ttl), String(channel)] };
}

const releaseIfUnqueuedScript: Script = {
  name: 'releaseIfUnqueued',
  sha: 'dbdcbac39ed0d9c42c3c0a7a20f219d81e7b0e27',
  lua: `local c,U,t=redis.call,KEYS,#KEYS/2
if c('EXISTS',unpack(U,t+1,#KEYS))>0 then
return 0
end
for b=1,t do
if redis.pcall('GET',KEYS[b])~=ARGV[1]then
return 0
end
end
c('DEL',unpack(U,1,t))
return 1`,
};

/**
 * release locks that are all still ours, with nobody queued; of anything else `release` has to be asked.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock in the same place
 * @param token the token that acquired them
 * @returns the call; its reply: 1 released | 0 nothing was changed: ask `release`
 */
export function releaseIfUnqueued(
  lock: readonly string[],
  queue: readonly string[],
  token: string | number,
): ScriptCall {
  return { script: releaseIfUnqueuedScript, keys: [...lock, ...queue], args: [String(token)] };
}

const releaseSharedScript = {
  name: 'releaseShared',
};

/**
 * remove a holder of a lock, or leave its queue, and notify the waiters that can then be admitted.
 *
 * @param lock sorted set: one member for each holder
 * @param queue sorted set: the queue of the lock
 * @param limit string: the number of permits of the lock
 * @param token the holder's token
 * @param known the holder's member, as the holder knows it; if it is not there, the member is searched for by token
 * @param ticket the ticket of the token in the queue, which it then leaves too; 0: not queued
 * @returns the call; its reply: [1 released | 0 gone | -1 lost: others hold the lock, beside whom this holder cannot be]
 */
export function releaseShared(
  lock: string,
  queue: string,
  limit: string,
  token: string | number,
  known: string | number,
  ticket: string | number,
): BatchableCall {
  return {
    script: releaseSharedScript,
    keys: [lock, queue, limit],
    args: [String(token), String(known), String(ticket)],
  };
}

const releaseScript: Script = {
  name: 'release',
  sha: 'a1b6cc66bdee0321da1dcbdb8cc44626aeed200e',
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
 * release locks, each if it is still ours, and hand each off to its queue. Also removes an entry from its queue.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock in the same place
 * @param fence string: the last fence minted for any lock
 * @param token the token that acquired the locks
 * @param ticket the ticket of the token in the queue: 0 not queued; -1 perhaps queued, with an unknown ticket
 * @param window ms for which the lock yields, when it is the turn of callers outside the queue
 * @param next the next queue entry of the same process (one lock): token, lifetime, fences, channel, id, ticket, and optionally the ms of silence after which the entry expires (default: by its position)
 * @returns the call; its reply: 1 one lock was released, and nobody is queued | [for each lock 1 released | 0 gone | -1 held by another token: left alone; then, with next, the reply of its acquire]
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

const takeScript: Script = {
  name: 'take',
  sha: '984bee54320ad2dddd922cce34d49d6688eacc94',
  lua: `local c,U=redis.call,KEYS
local t=(#KEYS-1)/2
if c('EXISTS',unpack(U,1,2*t))>0 then
for b=1,t do
local s=c('GET',KEYS[b])
if s and s~=ARGV[1]then
return 0
end
end
return-1
end
local L=c('TIME')
local q=string.format('%d%06d',L[1],L[2])
if tonumber(q)>tonumber(ARGV[3])then
return-1
end
local Q=c('SET',KEYS[#KEYS],q,'GET')
if Q and(#Q~=16 or string.find(Q,'%D')or Q>=q)then
c('SET',KEYS[#KEYS],Q)
return-1
end
for b=1,t do
c('SET',KEYS[b],ARGV[1],'PX',ARGV[2])
end
return tonumber(q)`,
};

/**
 * take locks that are all free, with nobody queued, at once; of anything else `acquire` has to be asked.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock in the same place
 * @param fence string: the last fence minted for any lock
 * @param token the caller's
 * @param lifetime ms until the server frees the locks by itself
 * @param notAfter server time in us after which this request must change nothing
 * @returns the call; its reply: the fence, which is the server's time in us | 0 somebody else holds one | -1 nothing was changed: ask `acquire`
 */
export function take(
  lock: readonly string[],
  queue: readonly string[],
  fence: string,
  token: string | number,
  lifetime: string | number,
  notAfter: string | number,
): ScriptCall {
  return {
    script: takeScript,
    keys: [...lock, ...queue, fence],
    args: [String(token), String(lifetime), String(notAfter)],
  };
}

const writeProcessScript: Script = {
  name: 'writeProcess',
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
 * write the record of a process, which others can list: its held locks and its waits.
 *
 * @param process string: the record, as JSON
 * @param text the record; '': the process neither holds nor waits; '=': unchanged
 * @param ttl ms after which the record expires
 * @returns the call; its reply: [1 done | 0 there was no record that could stay unchanged]
 */
export function writeProcess(process: string, text: string | number, ttl: string | number): ScriptCall {
  return { script: writeProcessScript, keys: [process], args: [String(text), String(ttl)] };
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
 * cache a value beside a lock, if the lock is still ours.
 *
 * @param lock string: the holder's token
 * @param value string: the cached value
 * @param token the token that acquired the lock
 * @param text the value
 * @param ttl ms for which the value is kept
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
  extendScript,
  freeScript,
  inspectScript,
  markSlotScript,
  plainScript,
  processesScript,
  publishValueScript,
  raiseFenceScript,
  readHolderScript,
  readPlacesScript,
  readProcessScript,
  readValueScript,
  registerProcessScript,
  releaseIfUnqueuedScript,
  releaseScript,
  takeScript,
  writeProcessScript,
  writeValueScript,
];
