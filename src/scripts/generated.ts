// Made by `npm run generate` from the .lua files beside it; do not edit.

// biome-ignore-all lint/style/useTemplate: the text between two parts may be a line end only

import { type Call, inBatch, type Script, type ScriptCall } from './script';

const clockPart = `local KEYS,ARGV,tonumber=KEYS,ARGV,tonumber
local c,T,bl=redis.call,redis.pcall,redis.acl_check_cmd
local A,h,bf,aQ`;
const dispatchPart = `local cL={}
local bW,bb=0,0
while bb<#ARGV do
local N=ARGV[bb+1]
local aG=cL[N]
if not aG then
local df,bV,cQ=string.match(N,'^(%a+) (%d+) (%d+)$')
aG={scripts[df],tonumber(bV),tonumber(cQ)}
cL[N]=aG
end
co(pcall(aG[1],bW,bb+1,aG[2],aG[3]))
bW,bb=bW+aG[2],bb+1+aG[3]
end`;
const holdersPart = `local t,bf,aS={},{},{}
local Z=16
local function bj(N)
return string.find(N,'^1 [rwp] %d+ %d+ %d+ %d+ .')~=nil
end
local function cI()
error('FOREIGN this sorted set has a member that is not of redis-exp-lock, or of another version of it',0)
end
local function M(N)
local u,ag,V,q,R,aF=string.match(N,'^1 ([rwp]) (%d+) (%d+) (%d+) (%d+) (.+)$')
if not u then
return nil
end
R=tonumber(R)
return{
b=u,
t=tonumber(ag),
w=tonumber(V),
l=tonumber(q),
e=string.sub(aF,1,R),
j=string.sub(aF,R+1),
f=N,
}
end
local function N(u,ag,V,q,l,am)
return string.format('1 %s %.0f %.0f %.0f %d ',u,ag,V,q,#l)..l..am
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
local P=bf[e]
if not P then
local j=c('ZRANGE',e,0,Z-1,'WITHSCORES')
P={c={},C=#j==2*Z,m=false}
for b=1,#j,2 do
if not bj(j[b])then
P.m=true
elseif tonumber(j[b+1])<=h then
P.c[#P.c+1]=j[b]
end
end
if P.C then
local ak=A%c('ZCARD',e)
local cN=c('ZRANGE',e,ak,ak+Z-1)
for b=1,#cN do
P.m=P.m or not bj(cN[b])
end
end
bf[e]=P
end
return P
end
local function cF(e,bx)
local P=bt(e)
if P.D then
return
elseif P.m or#P.c==Z then
local al={'1 r 1 0 0 0 '}
for b=1,#P.c do
al[b+1]=P.c[b]~=bx and P.c[b]or al[1]
end
c('ZREM',e,unpack(al))
else
c('ZREMRANGEBYSCORE',e,'-inf',string.format('%.0f',h))
end
P.D=true
end
local function bT(e,f)
local i=t[e]
if i and(i.i or not f)then
return i
end
i=bZ()
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
bu(i,g,tonumber(j[b+1]))
else
i.m=true
end
end
t[e]=i
return i
end
local function aN(e,f)
local i=bT(e,f)
if i.m or bt(e).m then
cI()
end
return i
end
local function dc(e,l,am,cT)
if t[e]then
return nil
end
local j=c('ZRANGE',e,-1,-1,'WITHSCORES')
local n=j[1]and tonumber(j[2])>h and M(j[1])
if not n or n.b~='r'or n.j~=am or n.e==l or(cT and n.l==0)then
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
local i=t[e]
t[e]=i and i.i and cP(i,l)or nil
end
local function cr(K)
if aS[K]==nil then
aS[K]=c('GET',K)or false
end
return aS[K]
end
local function aX(e)
local n=c('ZRANGE',e,-1,-1,'WITHSCORES')
if not n[1]or not bj(n[1])then
return
end
if n[2]=='inf'then
c('PERSIST',e)
else
local F=math.max(tonumber(n[2])-h,1)
if not bt(e).m or c('PTTL',e)<F then
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
local function bL(N)
local F=tonumber(N)
if not F or F<1 or F>9007199254740991 or not string.find(N,'^%d+$')then
error('ERR expected a lifetime in whole milliseconds, at least 1',0)
end
end
local function bz(e,B)
if bl and not bl('PEXPIRE',e,B)then
error('NOPERM this user has no permissions to run PEXPIRE on a lock',0)
end
end
local function be(q)
if not q or q>9007199254740991 or q>A+86400000000 then
error('FENCE the fence counter of this server is no number, or more than a day ahead of the clock',0)
end
return q
end
local function aT(q)
if not aQ then
local n=c('GET',q)
aQ=n and be(string.find(n,'^%d+$')and tonumber(n))or 0
end
return aQ
end
local function cf(q,n)
c('SET',q,string.format('%.0f',n))
aQ=n
end
local function bA(q,z,w)
if z==0 then
return 0
end
local o=math.max(aT(q)+1,A,w or 0)
cf(q,o+z-1)
return o
end
local function cg(e,l,B)
c('SETNX',e,l)
local cK=T('PEXPIRE',e,B)
if type(cK)=='table'then
c('DEL',e)
error(cK.err,0)
end
end`;
const queuePart = `local au,bC=10000,1000
local function cs(d,M)
local aZ=string.match(M,'^(%d+) ')
if aZ and aZ~='1'then
if c('PTTL',d)<0 then
c('PEXPIRE',d,au)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock',0)
end
return aZ
end
local function bg(d,M)
local ab,ac,D,J,at,l=
string.match(cs(d,M)and M or'','^1 (%d+) (%S+) (%d+) (%d+) (%S+) (.+)$')
ab,J=tonumber(ab),tonumber(J)
if not ab or ab<h or ab>h+au or J>1024 then
return nil
end
local F=tonumber(D)
if F>=1 and F<=9007199254740991 then
return ac,D,J,at,l
end
end
local function cu(d,l,y)
local j
if y>0 then
j=c('ZRANGEBYSCORE',d,y,y,'WITHSCORES')
else
j=c('ZRANGE',d,'+inf',0,'BYSCORE','REV','LIMIT',0,256,'WITHSCORES')
end
local m={}
for b=1,#j,2 do
if cs(d,j[b])and string.match(j[b],'^1 %d+ %S+ %d+ %d+ %S+ (.+)$')==l then
m[#m+1]=j[b]
y=tonumber(j[b+1])
end
end
return m,y
end
local function bN(d,l,D,J,at,ac,y,ad)
local ce=A+86400000000
local p=tonumber(y)
local m
m,p=cu(d,l,p<=ce and p or 0)
for b=1,#m do
c('ZREM',d,m[b])
end
if p<=0 or p>ce then
local n=c('ZRANGE',d,-1,-1,'WITHSCORES')
while n[1]and tonumber(n[2])>ce do
c('ZREM',d,n[1])
n=c('ZRANGE',d,-1,-1,'WITHSCORES')
end
p=math.max(A,(tonumber(n[2])or 0)+1)
end
local ak=string.format('%.0f',p)
local Q=c('ZCOUNT',d,0,'('..ak)
local F=math.max(2*math.min(math.max(1000,125*(Q+1)),2000),math.min(ad,au))
local ab=string.format('%.0f',h+F)
c('ZADD',d,ak,table.concat({'1',ab,ac,D,J,at,l},' '))
c('PEXPIRE',d,au)
return p,Q
end
local function cE(M,p)
local Y,W=string.match(M,'^poll (%d+) (%d+)$')
Y,W=tonumber(Y),tonumber(W)
if Y and Y<=h and W>=h and W<=h+au and-p<=bC then
return-p,Y,W
end
end
local function dd(d,S)
S=math.ceil(S)
if S>bC or c('ZCARD',d)==0 then
return
end
local Y,W=h,h+2*S+100
local j=c('ZRANGEBYSCORE',d,'-inf','(0','WITHSCORES')
for b=1,#j,2 do
local aM,o,n=nil,nil,nil
if string.sub(j[b],1,5)=='poll 'then
aM,o,n=cE(j[b],tonumber(j[b+1]))
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
local function cV(d)
local o,aJ,W,S,Y,aC=nil,0,0,0,h,nil
local al,aB={},0
repeat
local j=c('ZRANGE',d,aB,aB+32,'WITHSCORES')
for b=1,#j,2 do
local M,p=j[b],tonumber(j[b+1])
if p>=0 then
o=bg(d,M)and M
if o then
break
end
al[#al+1]=M
elseif M=='passes'then
aJ=p>=-1000000 and-p or 0
W=aJ==0 and-p<=h+2*bC and-p or 0
else
local aM,cR=cE(M,p)
if aM then
S,Y,aC=aM,cR,M
else
al[#al+1]=M
end
end
end
aB=aB+33
until o or#j<66 or#al>=2048
if#al>0 then
c('ZREM',d,unpack(al))
end
return o,aJ,W,S,Y,aC
end
local function bv(e,q,d,m,bJ,cx)
local o,aJ,W,S,Y,aC=cV(d)
if not o then
if c('ZCOUNT',d,0,'+inf')==0 then
c('DEL',d)
end
return'none'
end
if W>h then
return'yielding',W
end
local ac,D,J,at,l=bg(d,o)
local cl=math.max(math.min(bJ,bC),S>0 and S+20 or 0)
if cx and bJ>0 and(aJ>=64 or(S>0 and h-Y>=8*cl))then
c('ZADD',d,string.format('-%.0f',h+cl),'passes')
if aC then
c('ZREM',d,aC)
end
if l~=m then
T('PUBLISH',at,ac..' '..e)
end
return'yielding',h+cl
end
local B=l==m and D or string.format('%.0f',math.min(tonumber(D),2000))
bz(e,B)
if J>0 then
aT(q)
end
if cx then
c('ZADD',d,-(aJ+1),'passes')
elseif aJ+W>0 then
c('ZREM',d,'passes')
end
c('ZREM',d,o)
local ap=bA(q,J)
cg(e,l,B)
if l==m then
return'mine',ap
end
T('PUBLISH',at,ac..'='..string.format('%.0f',ap)..' '..e)
return'given'
end
local function bj(l)
return#l>=36 and string.sub(l,-4)==string.sub(l,-36,-33)
end
local function ae(e,d,l,D,J,at,ac,y,ad,x)
local s=c('GET',e)
local p,Q=bN(d,l,D,J,at,ac,y,ad)
return{0,x or c('PTTL',e),p,h,Q,s and not bj(s)and 1 or 0}
end`;
const replyPart = `local C,ah={},0
local function co(cc,ae)
if type(ae)=='number'then
ae={ae}
end
if cc and not ae.err then
local z=#ae
C[ah+1]=z
for b=1,z do
C[ah+1+b]=ae[b]
end
ah=ah+1+z
else
C[ah+1]=-1
C[ah+2]=type(ae)=='table'and ae.err or ae
ah=ah+2
end
end`;
const waitersPart = `local cG,aH={},{}
local au,bB=10000,32
local aA,dj={1e15,5e14,0},500000
local function cp(u,az)
if u=='u'or(u=='r'and az=='r')then
return 1
end
return u=='w'and az=='w'and 2 or 3
end
local bG=1
local function bq(g,y)
return g.b=='u'and bG or y-aA[g.g]
end
local function bg(d,j,p)
local aZ=string.match(j,'^(%d+) ')
if aZ and aZ~='2'then
if c('PTTL',d)<0 then
c('PEXPIRE',d,au)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock',0)
end
local ab,ac,u,ag,az,at,R,aF=
string.match(j,'^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.+)$')
ab,R=tonumber(ab),tonumber(R)
if not ab or ab<h or ab>h+au or R<1 or R>#aF then
return nil
end
local g={
b=u,
g=cp(u,az),
t=tonumber(ag),
F=az,
p=at,
y=ac,
e=string.sub(aF,1,R),
j=string.sub(aF,R+1),
f=j,
}
g.a=u=='u'and bG or p+aA[g.g]
return g.a<=A+86400000000 and g or nil
end
local function ct(v)
local bk=v>1 and string.format('%.0f',A-(aA[v-1]+aA[v])/2)or'0'
local bS=v<3 and string.format('(%.0f',A-(aA[v]+aA[v+1])/2)or'+inf'
return bk,bS
end
local function cH(d,f,j)
for b=1,#j,2 do
local p=tonumber(j[b+1])
local g=p>=0 and bg(d,j[b],p)
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
local function bF(d)
local f=cG[d]
if f then
return f
end
f={v=0,q=0,r=0,d={},c={}}
for v=1,3 do
local bk,bS=ct(v)
f[v]={h={},A=bk,x=bS}
end
f.o=c('ZCARD',d)
f.i=f.o<=Z+2
local j=f.o==0 and{}
or c('ZRANGEBYSCORE',d,'-inf',f.i and'+inf'or'(0','WITHSCORES','LIMIT',0,Z+2)
cH(d,f,j)
for v=1,3 do
f[v].u=not f.i
end
cG[d]=f
return f
end
local function ak(d,f,v,G)
local I=f[v]
while G>#I.h and I.u and#f.c<2048 do
local z=G==1 and math.min(Z,3)or Z
local j=c('ZRANGEBYSCORE',d,I.A,I.x,'WITHSCORES','LIMIT',0,z)
I.u=#j==2*z
if#j>0 then
I.A='('..j[#j]
end
cH(d,f,j)
end
return I.h[G]
end
local function cv(d,f,l,y,bD)
local g=f.d[l]
for v=bD or 1,(g or f.i or y==0)and 0 or bD or 3 do
local j
if y>0 then
local p=y==bG and y or y-aA[v]
j=c('ZRANGEBYSCORE',d,p,p,'WITHSCORES')
else
j=c('ZRANGE',d,f[v].x,'0','BYSCORE','REV','LIMIT',0,4*Z,'WITHSCORES')
end
for b=1,#j,2 do
local cb=string.find(j[b],l,1,true)and bg(d,j[b],tonumber(j[b+1]))
g=cb and cb.e==l and cb or g
end
end
return g
end
local function dn(f)
return f.o-#f.c
end
local function dg(d,f,r)
local n=f.i and 0 or f.r
for v=1,3 do
local ao=f[v].h
n=math.max(n,ao[#ao]and ao[#ao].a or 0)
end
local I=f[r.g]
if not f.i and not I.r then
local j=c('ZRANGE',d,I.x,'0','BYSCORE','REV','LIMIT',0,1,'WITHSCORES')
local y=(tonumber(j[2])or 0)+aA[r.g]
I.r=y<=A+86400000000 and y or 0
end
n=math.max(n,I.r or 0)
return math.max(A,n+1)
end
local function di(d,f,r)
local p=bq(r,r.a)
if not f.i then
return c('ZCOUNT',d,0,string.format('(%.0f',p))
end
local Q=0
for v=1,r.g do
for aR,g in ipairs(f[v].h)do
if g.e~=r.e and bq(g,g.a)<p then
Q=Q+1
end
end
end
return Q
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
local function aU(d,f,g)
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
local function cA(d,f)
if f.i and#f[1].h+#f[2].h+#f[3].h==0 then
c('DEL',d)
f.v,f.q=0,0
return true
end
end`;
const wakePart = `local function cD(d,f,af,r)
local bw={}
for v=1,3 do
local g=ak(d,f,v,af[v])
while g and r and g.e==r.e do
af[v]=af[v]+1
g=ak(d,f,v,af[v])
end
if r and r.g==v and not af.B and(not g or r.a<g.a)then
g=r
end
bw[v]=g
end
local bo,o,bE=bw[1],bw[2],bw[3]
if bE and(not o or(bE.a<=f.v and bE.a<o.a))then
o=bE
end
local db=bo and o and(o.a>bo.a or A-o.a<=dj)
if bo and(not o or db or bo.b=='u')then
o=bo
end
if o and o==r then
af.B=true
elseif o then
af[o.g]=af[o.g]+1
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
local function cC(d,f,i,r,ax)
local bp,af=cJ(i),{1,1,1}
local o,I,p=ak(d,f,r.g,1),f[r.g],bq(r,r.a)
if o and I.u and p>I.z then
local bk=ct(r.g)
if c('ZCOUNT',d,bk,string.format('(%.0f',p))-#f.c>=bB then
return false
end
end
for aR=1,bB do
local g=cD(d,f,af,r)
if not g or not cn(bp,g,ax)then
return false
elseif g==r then
return true
end
bK(bp,g)
end
return false
end
local function bI(e,d,K)
local f=bF(d)
aU(d,f)
if not cA(d,f)and not aH[e]then
aH[e]=true
aH[#aH+1]={e,d,K}
end
end
local function dp(e,d,K)
local f,af=bF(d),{1,1,1}
local bp=cJ(aN(e))
local ax=tonumber(c('GET',K)or 0)or 0
local aK,bd,n={},{},0
for G=1,bB do
local g=cD(d,f,af)
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
c('ZADD',d,string.format('-%.0f',n),'told')
elseif f.q>0 then
c('ZREM',d,'told')
end
f.q=n
end`;
const acquireOnce1Part = `local l,B,X,J=ARGV[1],ARGV[2],tonumber(ARGV[3]),tonumber(ARGV[4])
local bh,ca=tonumber(ARGV[5]),tonumber(ARGV[6])
bL(B)
if l==''or not X or not J or not bh or bh<1 or not ca then
return redis.error_reply('ERR expected a token, a moment, how many fences, and a slot')
end
aa()
if h>X then
return{-1,0,0,h}
end
local e,q,d,cM=KEYS[1],KEYS[2],KEYS[3],KEYS[4]
local s=c('GET',e)
local ci=math.floor((h-ca)/bh)*bh+ca
local bM=tonumber(c('GET',cM)or'')
if s~=l and bM and bM>=ci and bM<=h+86400000 then
return{-4,0,0,h}
end
if s and s~=l then
return{0,c('PTTL',e),0,h}
end
if not s and c('ZCARD',d)>0 and bv(e,q,d,false,0,false)=='given'then
return{0,c('PTTL',e),0,h}
end
bz(e,B)
local ap=s and J>0 and aT(q)or 0
if ap==0 then
ap=bA(q,J)
end
if ARGV[7]=='1'then
c('SET',cM,string.format('%.0f',ci),'PX',string.format('%.0f',ci+bh-h))
end
if not s then
cg(e,l,B)
else
c('PEXPIRE',e,string.format('%.0f',math.max(c('PTTL',e),tonumber(B))))
end
return{1,ap,0,h}`;
const acquire1Part = `local l,B,z,X=ARGV[1],ARGV[2],tonumber(ARGV[4]),tonumber(ARGV[3])
if B~=bf then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
bf=B
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
if#KEYS==3 and z<=1 and bl and T('EXISTS',KEYS[1],KEYS[2])==0 then
local q=0
if z==1 then
local n=aQ or c('GET',KEYS[3])or'0'
local w=(#ARGV==5 or#ARGV==6)and tonumber(ARGV[5])or 0
q=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,w)
end
if q and q<=A+86400000000 and bl('PEXPIRE',KEYS[1],B)then
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
local bi,ay,x,bc={},{},0,false
for b=1,t do
local s=c('GET',KEYS[b])
if not s then
bi[b]=true
else
local F=c('PTTL',KEYS[b])
if s~=l then
bc=true
x=(F<0 or x<0)and-1 or math.max(x,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bc and z>0 and aT(q)or 0
for b=1,bc and 0 or t do
local e,d=KEYS[b],KEYS[t+b]
if bi[b]and c('ZCARD',d)>0 then
if aD then
bN(d,l,B,ARGV[4],ARGV[5],ARGV[6],ARGV[7],ad)
end
local ar,aY=bv(e,q,d,aD and l,0,false)
if ar=='mine'then
return{1,aY,c('ZCOUNT',d,0,'+inf'),h}
end
if ar=='given'or aD then
bc=true
x=ar=='given'and c('PTTL',e)or ar=='yielding'and aY-h or 0
break
end
end
end
if bc then
if aD then
return ae(KEYS[1],KEYS[2],l,B,ARGV[4],ARGV[5],ARGV[6],ARGV[7],ad,x)
end
local S=#ARGV==6 and tonumber(ARGV[6])or 0
for b=1,S>0 and t or 0 do
dd(KEYS[t+b],S)
end
return{0,x,0,h}
end
for b=1,t do
if bi[b]then
bz(KEYS[b],B)
end
end
local w=(#ARGV==5 or#ARGV==6)and be(tonumber(ARGV[5]))or 0
local o=next(bi)==nil and z>0 and n>0 and n-z+1 or bA(q,z,w)
for b=1,t do
if bi[b]then
cg(KEYS[b],l,B)
elseif ay[b]then
c('PEXPIRE',KEYS[b],string.format('%.0f',ay[b]))
end
end
return{1,o,aD and c('ZCOUNT',KEYS[2],0,'+inf')or 0,h}`;
const extend1Part = `local D,bO=tonumber(ARGV[2]),ARGV[3]=='1'
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
aL[b]=bO or(x>=0 and(D==0 or x<D))
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
const raise2Part = `local w=tonumber(ARGV[2])
if not w or w%1~=0 or w<0 or w>9007199254740991 then
return redis.error_reply('ERR expected a fence')
end
aa()
be(w)
for b=1,#KEYS-1 do
if c('GET',KEYS[b])~=ARGV[1]then
return{0}
end
end
if aT(KEYS[#KEYS])<w then
cf(KEYS[#KEYS],w)
end
return{1}`;
const release1Part = `local l,y,t=ARGV[1],ARGV[2],(#KEYS-1)/2
local o=T('GET',KEYS[1])
local R=T('ZCARD',KEYS[t+1])
if o==l and R==0 and t==1 and#ARGV==3 then
c('DEL',KEYS[1])
return 1
end
local C,bQ={},false
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
bQ=bQ or R~=0
end
for b=1,t do
if C[b]==1 then
c('DEL',KEYS[b])
end
end
if not bQ and#ARGV==3 then
return C
end`;
const release2Part = `local function bP(e,d,cO)
aa()
if y~='0'then
local m=cu(d,l,tonumber(y))
for b=1,#m do
c('ZREM',d,m[b])
end
end
local next=#ARGV>3 and ARGV[4]
local ad=#ARGV>9 and tonumber(ARGV[10])or 0
if next then
bL(ARGV[5])
bN(d,next,ARGV[5],ARGV[6],ARGV[7],ARGV[8],ARGV[9],ad)
end
local ar,aY
if cO>=0 then
ar,aY=bv(e,KEYS[#KEYS],d,next,tonumber(ARGV[3]),cO==1)
end
if ar=='mine'then
return{1,aY,c('ZCOUNT',d,0,'+inf'),h}
elseif next then
local x=ar=='yielding'and aY-h or ar=='none'and 0 or nil
return ae(e,d,next,ARGV[5],ARGV[6],ARGV[7],ARGV[8],ARGV[9],ad,x)
end
end
for b=1,t do
local cc,bs=pcall(bP,KEYS[b],KEYS[t+b],C[b])
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
  sha: 'e5949d9b0d0be592b0d456c3702611a97e216dbd',
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
  sha: '1b06f2b968650a7cb5c2a17b02714f8f1c0bf5d8',
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
  sha: 'aad1a314b4c8c9ff4f06452cf036556e908c39d8',
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
local l,J,u,az,am=ARGV[a+1],ARGV[a+4]~='0',ARGV[a+5],ARGV[a+6],ARGV[a+10]
local X,ag,ax,V=tonumber(ARGV[a+3]),tonumber(ARGV[a+7]),tonumber(ARGV[a+8]),tonumber(ARGV[a+9])
local aD=an>11 and ARGV[a+11]~=''
local bn,w=l,0
if an>14 then
bn,w=ARGV[a+15],tonumber(ARGV[a+16])
end
bL(ARGV[a+2])
local B=tonumber(ARGV[a+2])
local cU=ag and ax and V and ag>=1 and ag%1==0 and string.find('rwp',u,1,true)
if l==''or not X or not cU then
return redis.error_reply('ERR expected a token, a time, a kind, permits and a step')
end
aa()
if h>X then
return{-1,0,0,h}
end
be(w)
local e,q,d,K=KEYS[k+1],KEYS[k+2],KEYS[k+3],KEYS[k+4]
local f=bF(d)
local br=V>0 and u=='w'
local v=cp(br and'u'or u,az)
local y=aD and tonumber(ARGV[a+13])or 0
local H=cv(d,f,bn,y,v)
y=y>aA[1]and y<=A+86400000000 and y or 0
local aq=dn(f)-(H and 1 or 0)
local r={b=br and'u'or u,t=ag,F=az,e=bn,j=am}
r.g=v
r.a=br and bG or H and H.b~='u'and H.a or y
if r.a==0 then
r.a=dg(d,f,r)
end
local ba=aq
if u=='r'and aq>0 and f.i then
for v=1,3 do
for aR,g in ipairs(f[v].h)do
local cX=g.b=='r'and g.j==am and g~=H
ba=ba-(cX and 1 or 0)
end
end
end
local aI,m,i,O=false,nil,nil,0
local cz=V>0 or(u~='p'and cr(K)==l)
if u=='r'and not cz and#f.c==0 and(not H or H.b=='r')then
i=dc(e,l,am,J)
aI=i and cC(d,f,i,r,ax)
end
bz(e,ARGV[a+2])
local E=h+B
local p=string.format('%.0f',E)
if not aI then
local aw=aN(e,cz)
if u=='r'and J and aw.l==0 then
aw=aN(e,true)
end
m,i=aw.d[l],cP(aw,l)
if not m and not aw.i and u=='r'then
local ay=N('r',1,0,J and aw.l or 0,l,am)
local bX=tonumber(c('ZSCORE',e,ay))
m=bX and bX>h and M(ay)
if m then
m.n=bX
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
local bU=aw.k>0
ak(d,f,3,1)
for b=1,#f[3].h do
bU=bU or f[3].h[b].b=='p'
end
if bU and O~=0 and O~=ax then
return redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f',O,ax))
end
local o=br and m.w<V and ak(d,f,1,1)
if o and o.b=='u'and o.e~=l then
return{-2,0,0,h}
end
E=math.max(E,m and m.n or 0)
p=E==math.huge and'+inf'or string.format('%.0f',E)
if m and(V==0 or m.w==V)then
c('ZADD',e,p,m.f)
m.n=E
aU(d,f,H)
aX(e)
return{1,m.l,ba,h}
end
if V>0 and u=='r'then
t[e]=nil
c('ZREM',e,m.f)
c('ZADD',e,p,N('r',1,V,m.l,l,m.j))
c('SET',K,l,'PX',60000)
aS[K]=l
aU(d,f,H)
aX(e)
bI(e,d,K)
return{1,m.l,ba,h}
end
aI=i.k==0
if not br then
aI=not(u=='p'and dm(i,am))and cC(d,f,i,r,ax)
end
local cq=an==11 and string.find(ARGV[a+11],'^1 r')and tonumber(c('ZSCORE',e,ARGV[a+11]))
aI=aI or cq and cq>h
end
if aI then
local ap=J and u=='r'and i.l or 0
if J and ap==0 then
ap=bA(q,u=='p'and tonumber(ARGV[a+4])or 1,w)
end
local bY=M(N(u,ag,V,ap,l,am))
c('ZADD',e,'GT',p,bY.f)
if m then
c('ZREM',e,m.f)
t[e]=nil
elseif t[e]then
bu(t[e],bY,E)
end
aX(e)
cF(e,bY.f)
if u=='p'then
local n=c('PTTL',e)
c('SET',K,ARGV[a+8],'PX',string.format('%.0f',math.max(n,0)+3600000))
if n<0 then
c('PERSIST',K)
end
end
local cy=#f.c>0
local cZ=H and f.q>0 and H.a>=f.q
aU(d,f,H)
if u=='w'and aq>0 then
c('ZREMRANGEBYSCORE',d,'-inf','(0')
c('ZADD',d,string.format('-%.0f',A),'phase')
f.v,f.q=A,0
elseif H or cy then
cA(d,f)
end
if cy or cZ then
bI(e,d,K)
end
return{1,ap,ba,h}
end
local x=0
for aR,g in pairs(i.d)do
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
local da=not H and y==0 and v==3
local Q=da and aq or di(d,f,r)
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
ag,
az,
r.p,
#bn
)..bn..am
f.o=f.o+c('ZADD',d,string.format('%.0f',bq(r,r.a)),r.f)
c('PEXPIRE',d,au)
if u=='p'and O==0 then
c('SET',K,ARGV[a+8],'PX',3600000)
end
if H and H.f==r.f then
H.f=''
end
aU(d,f,H)
cW(f,r)
return{0,x,r.a,h,Q,0}
end,
extendShared=function(k,a,kn,an)
local D,bO,X=tonumber(ARGV[a+3]),ARGV[a+4]=='1',tonumber(ARGV[a+5])
if not X or not D or D%1~=0 or D<0 or D>9007199254740991 then
return redis.error_reply('ERR expected a time, and a lifetime in whole milliseconds, at least 0')
end
aa()
local e,m,E=KEYS[k+1],ARGV[a+2],nil
E=m~=''and tonumber(c('ZSCORE',e,m))or nil
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
if h>X then
return{-2,h}
end
local ck=D==0 and math.huge or h+D
if bO or ck>E then
t[e]=nil
cF(e,m)
c('ZADD',e,ck==math.huge and'+inf'or string.format('%.0f',ck),m)
aX(e)
if string.find(m,'^1 p')then
local bx=c('PTTL',e)
if bx<0 then
c('PERSIST',KEYS[k+2])
else
c('PEXPIRE',KEYS[k+2],string.format('%.0f',bx+3600000))
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
c('ZREM',e,m)
cw(e,ARGV[a+1])
if E==math.huge then
aX(e)
end
end
if E and string.find(m,'^1 r 1 [1-9]')and cr(KEYS[k+3])==ARGV[a+1]then
c('DEL',KEYS[k+3])
aS[KEYS[k+3]]=nil
end
local function aq()
if ARGV[a+3]~='0'then
local f=bF(d)
aU(d,f,cv(d,f,ARGV[a+1],tonumber(ARGV[a+3])))
elseif C==1 and string.find(m,'^1 r')and c('ZCOUNT',e,string.format('(%.0f',h),'+inf')>1 then
return
end
if c('ZCARD',d)>0 then
bI(e,d,KEYS[k+3])
end
end
pcall(aq)
return{C}
end,
countPermits=function(k,a,kn,an)
aa()
return{aN(KEYS[k+1],true).s}
end,
raiseShared=function(k,a,kn,an)
local w=tonumber(ARGV[a+2])
if not w or w%1~=0 or w<0 or w>9007199254740991 then
return redis.error_reply('ERR expected a fence')
end
aa()
be(w)
local e,m=KEYS[k+1],aN(KEYS[k+1],true).d[ARGV[a+1]]
if not m then
return{0}
end
if aT(KEYS[k+2])<w then
cf(KEYS[k+2],w)
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
local cj={}
for l,g in pairs(aN(e,true).d)do
if string.sub(redis.sha1hex(l),1,#ac)==ac then
cj[#cj+1]=g
end
end
for aR,g in ipairs(cj)do
c('ZREM',e,g.f)
cw(e,g.e)
T('PUBLISH',ARGV[a+2],'!'..redis.sha1hex(g.e)..' '..e)
if string.find(g.f,'^1 r 1 [1-9]')then
c('DEL',KEYS[k+3])
aS[KEYS[k+3]]=nil
end
z=z+1
end
if z>0 then
aX(e)
pcall(function()
if c('ZCARD',d)>0 then
bI(e,d,KEYS[k+3])
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
  sha: '956b78a43510b244d9cf04af1e52c9c94165b81d',
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
if B~=bf then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
bf=B
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
if kn==3 and z<=1 and bl and T('EXISTS',KEYS[k+1],KEYS[k+2])==0 then
local q=0
if z==1 then
local n=aQ or c('GET',KEYS[k+3])or'0'
local w=(an==5 or an==6)and tonumber(ARGV[a+5])or 0
q=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,w)
end
if q and q<=A+86400000000 and bl('PEXPIRE',KEYS[k+1],B)then
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
local bi,ay,x,bc={},{},0,false
for b=1,t do
local s=c('GET',KEYS[k+b])
if not s then
bi[b]=true
else
local F=c('PTTL',KEYS[k+b])
if s~=l then
bc=true
x=(F<0 or x<0)and-1 or math.max(x,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bc and z>0 and aT(q)or 0
for b=1,bc and 0 or t do
local e,d=KEYS[k+b],KEYS[k+t+b]
if bi[b]and c('ZCARD',d)>0 then
if aD then
bN(d,l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ad)
end
local ar,aY=bv(e,q,d,aD and l,0,false)
if ar=='mine'then
return{1,aY,c('ZCOUNT',d,0,'+inf'),h}
end
if ar=='given'or aD then
bc=true
x=ar=='given'and c('PTTL',e)or ar=='yielding'and aY-h or 0
break
end
end
end
if bc then
if aD then
return ae(KEYS[k+1],KEYS[k+2],l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ad,x)
end
local S=an==6 and tonumber(ARGV[a+6])or 0
for b=1,S>0 and t or 0 do
dd(KEYS[k+t+b],S)
end
return{0,x,0,h}
end
for b=1,t do
if bi[b]then
bz(KEYS[k+b],B)
end
end
local w=(an==5 or an==6)and be(tonumber(ARGV[a+5]))or 0
local o=next(bi)==nil and z>0 and n>0 and n-z+1 or bA(q,z,w)
for b=1,t do
if bi[b]then
cg(KEYS[k+b],l,B)
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
proclaim=function(k,a,kn,an)
` +
    inBatch(proclaim1Part) +
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
local C,bQ={},false
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
bQ=bQ or R~=0
end
for b=1,t do
if C[b]==1 then
c('DEL',KEYS[k+b])
end
end
if not bQ and an==3 then
return C
end
local function bP(e,d,cO)
aa()
if y~='0'then
local m=cu(d,l,tonumber(y))
for b=1,#m do
c('ZREM',d,m[b])
end
end
local next=an>3 and ARGV[a+4]
local ad=an>9 and tonumber(ARGV[a+10])or 0
if next then
bL(ARGV[a+5])
bN(d,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ad)
end
local ar,aY
if cO>=0 then
ar,aY=bv(e,KEYS[k+kn],d,next,tonumber(ARGV[a+3]),cO==1)
end
if ar=='mine'then
return{1,aY,c('ZCOUNT',d,0,'+inf'),h}
elseif next then
local x=ar=='yielding'and aY-h or ar=='none'and 0 or nil
return ae(e,d,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ad,x)
end
end
for b=1,t do
local cc,bs=pcall(bP,KEYS[k+b],KEYS[k+t+b],C[b])
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

const dropScript: Script = {
  name: 'drop',
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
export function drop(lock: readonly string[], queue: readonly string[], token: string | number): ScriptCall {
  return { script: dropScript, keys: [...lock, ...queue], args: [String(token)] };
}

const enlistScript: Script = {
  name: 'enlist',
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
  sha: 'aeb5b252398f7455ecac051d1849b0dfaa22c4be',
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
  sha: '76fbe2d36dafb4bd0038aa2ff1e13cb6750bff43',
  lua:
    clockPart +
    `
local s=T('GET',KEYS[1])
if type(s)=='table'then
return string.find(s.err,'WRONGTYPE',1,true)and{-1}or s
end
local bR=s and redis.sha1hex(s)
if not bR or string.sub(bR,1,#ARGV[1])~=ARGV[1]then
return{0}
end
c('DEL',KEYS[1])
T('PUBLISH',ARGV[2],'!'..bR..' '..KEYS[1])
` +
    mintPart +
    `
` +
    queuePart +
    `
local function bP()
aa()
if c('ZCARD',KEYS[2])>0 then
c('ZREM',KEYS[2],'passes')
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
  sha: '412370ece4bd8596d36b4f01be3da578a1b647dd',
  lua: `local L=redis.call('TIME')
local A=L[1]*1000000+L[2]
local h=math.floor(A/1000)
local function dl(e,x)
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
local ch=0
for b=1,t do
local s=redis.pcall('GETRANGE',KEYS[b],0,4095)
local x=redis.call('PTTL',KEYS[b])
if type(s)=='table'then
s=redis.pcall('GET',KEYS[b])
elseif x==-2 then
s=false
end
local av,aV
if type(s)=='table'then
av,aV=dl(KEYS[b],x)
aV=aV and(string.find(aV,'^FOREIGN')and aV or s.err)
else
av={s,x,0,'m',{}}
end
if av then
av[3]=redis.call('ZCOUNT',KEYS[t+b],0,'+inf')
av[6]=av[3]==0 and{}
or redis.call('ZRANGEBYSCORE',KEYS[t+b],0,'+inf','WITHSCORES','LIMIT',0,ARGV[1])
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
  sha: '11db462261cee19c25608adebcb9c52f35834229',
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
  sha: '043d631b525c235a2791ad576339b4a55f072d22',
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
if B~=bf then
local F=tonumber(B)
if not F or F<1 or F>9007199254740991 or not string.find(B,'^%d+$')then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
bf=B
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
if kn==3 and z<=1 and bl and T('EXISTS',KEYS[k+1],KEYS[k+2])==0 then
local q=0
if z==1 then
local n=aQ or c('GET',KEYS[k+3])or'0'
local w=(an==5 or an==6)and tonumber(ARGV[a+5])or 0
q=(aQ or string.find(n,'^%d+$'))and math.max(n+1,A,w)
end
if q and q<=A+86400000000 and bl('PEXPIRE',KEYS[k+1],B)then
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
local bi,ay,x,bc={},{},0,false
for b=1,t do
local s=c('GET',KEYS[k+b])
if not s then
bi[b]=true
else
local F=c('PTTL',KEYS[k+b])
if s~=l then
bc=true
x=(F<0 or x<0)and-1 or math.max(x,F)
elseif F>=0 then
ay[b]=math.max(F,tonumber(B))
end
end
end
local n=not bc and z>0 and aT(q)or 0
for b=1,bc and 0 or t do
local e,d=KEYS[k+b],KEYS[k+t+b]
if bi[b]and c('ZCARD',d)>0 then
if aD then
bN(d,l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ad)
end
local ar,aY=bv(e,q,d,aD and l,0,false)
if ar=='mine'then
return{1,aY,c('ZCOUNT',d,0,'+inf'),h}
end
if ar=='given'or aD then
bc=true
x=ar=='given'and c('PTTL',e)or ar=='yielding'and aY-h or 0
break
end
end
end
if bc then
if aD then
return ae(KEYS[k+1],KEYS[k+2],l,B,ARGV[a+4],ARGV[a+5],ARGV[a+6],ARGV[a+7],ad,x)
end
local S=an==6 and tonumber(ARGV[a+6])or 0
for b=1,S>0 and t or 0 do
dd(KEYS[k+t+b],S)
end
return{0,x,0,h}
end
for b=1,t do
if bi[b]then
bz(KEYS[k+b],B)
end
end
local w=(an==5 or an==6)and be(tonumber(ARGV[a+5]))or 0
local o=next(bi)==nil and z>0 and n>0 and n-z+1 or bA(q,z,w)
for b=1,t do
if bi[b]then
cg(KEYS[k+b],l,B)
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
local C,bQ={},false
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
bQ=bQ or R~=0
end
for b=1,t do
if C[b]==1 then
c('DEL',KEYS[k+b])
end
end
if not bQ and an==3 then
return C
end
local function bP(e,d,cO)
aa()
if y~='0'then
local m=cu(d,l,tonumber(y))
for b=1,#m do
c('ZREM',d,m[b])
end
end
local next=an>3 and ARGV[a+4]
local ad=an>9 and tonumber(ARGV[a+10])or 0
if next then
bL(ARGV[a+5])
bN(d,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ad)
end
local ar,aY
if cO>=0 then
ar,aY=bv(e,KEYS[k+kn],d,next,tonumber(ARGV[a+3]),cO==1)
end
if ar=='mine'then
return{1,aY,c('ZCOUNT',d,0,'+inf'),h}
elseif next then
local x=ar=='yielding'and aY-h or ar=='none'and 0 or nil
return ae(e,d,next,ARGV[a+5],ARGV[a+6],ARGV[a+7],ARGV[a+8],ARGV[a+9],ad,x)
end
end
for b=1,t do
local cc,bs=pcall(bP,KEYS[k+b],KEYS[k+t+b],C[b])
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
local U,as=KEYS,ARGV
local aE,aW,aL,bJ=tonumber(ARGV[1]),tonumber(ARGV[2]),ARGV[3],ARGV[4]
local B,X,z=ARGV[5],ARGV[6],tonumber(ARGV[7])
local O,q,aP=aE+aW,KEYS[#KEYS],7+aE
local ai,a=(#KEYS-1-O-aW)/2,O+aW
local by=#as>aP+O+ai and aP+O+ai
local ay,H,bH,G={},0,{},0
local function cB(N)
local F=tonumber(N)
return F and F>=1 and F<=9007199254740991 and string.find(N,'^%d+$')
end
local i=O>0 and c('MGET',unpack(U,1,O))
if ai+aE>0 then
aa()
end
local de=bl and aE>0 and cB(aL)
for b=1,aE do
bH[b]=de and i[b]==as[7+b]and h<=tonumber(as[aP+b])
end
if aW>0 then
H=c('EXISTS',unpack(U,O+1,a))
for b=aE+1,O do
if i[b]==as[aP+b]and(H==0 or c('EXISTS',U[aW+b])==0)then
G=G+1
ay[G],bH[b]=U[b],true
end
end
end
local o,aj=0,false
if ai>0 then
H=c('EXISTS',unpack(U,a+ai+1,a+2*ai))
local n=z==1 and c('GET',q)or'0'
aj=h<=tonumber(X)and cB(B)
aj=aj and string.find(n,'^%d+$')and tonumber(n)<=A+86400000000
if aj and z==1 then
o=math.max(n+1,A)
n=o+ai-1
for b=1,by and ai or 0 do
local w=tonumber(as[by+b])
aj=aj and w and w<=A+86400000000
n=math.max(b==1 and o or n+1,w or 0)
o=b==1 and n or o
end
aj=aj and not T('SET',q,string.format('%.0f',n)).err
end
end
C,ah={O+ai,o,h or 0},3
local function cd(G,dk,bV,...)
KEYS,ARGV=bV,{...}
C[1],C[ah+1]=C[1]-1,G
ah=ah+1
co(pcall(scripts[dk],0,0,#KEYS,#ARGV))
end
local function cm()
for b=1,ai do
local e,d,l=U[a+b],U[a+ai+b],as[aP+O+b]
local cY=aj and(H==0 or c('EXISTS',d)==0)
if not cY or not c('SET',e,l,'NX','PX',B)then
local w=by and as[by+b]or nil
cd(O+b,'acquire',{e,d,q},l,B,X,as[7],w)
end
end
end
if not aj then
cm()
end
for b=1,aE do
if not bH[b]or type(T('PEXPIRE',U[b],aL,'GT'))=='table'then
cd(b,'extend',{U[b]},as[7+b],aL,'0',as[aP+b])
end
end
local cS=G>0 and T('DEL',unpack(ay))
for b=aE+1,O do
if type(cS)=='table'or not bH[b]then
cd(b,'release',{U[b],U[aW+b],q},as[aP+b],'0',bJ)
end
end
if aj then
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
  sha: 'bb8d81603ffebfe40d78ae8c7af5fb9a1da771bc',
  lua: `local L=redis.call('TIME')
local h=L[1]*1000+math.floor(L[2]/1000)
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
  sha: 'c0afed92f837001bab1f0e0b11499283b4469130',
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
  sha: '946510a03ed52b72c1a5bea5e0ee1e0abe10da29',
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
  sha: '066f7121e89b4d6c79a6b06635300535a35bd37e',
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
 * @returns the call; its reply: 1 one lock was released, and nobody is queued | [for each lock 1 released | 0 gone | -1 somebody else's: left alone; then, with next, the reply of its acquire]
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
  dropScript,
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
  takeScript,
  writeValueScript,
];
