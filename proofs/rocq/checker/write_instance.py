# Writes an instance for layer_checker.v: python3 gen.py T n d H shared out.v
import random, sys
T,n,d,H,shared=map(int,sys.argv[1:6]); out=sys.argv[6]
p=2**31-1
random.seed(1)
R=lambda k: [random.randint(-1000,1000) for _ in range(k)]
E0=[R(d) for _ in range(n)]
E=[E0 if shared else [R(d) for _ in range(n)] for _ in range(T)]
Q=[R(d) for _ in range(T)]
K=[R(d) for _ in range(H)]; D=[R(d) for _ in range(H)]
dot=lambda u,v: sum(x*y for x,y in zip(u,v))
a=123456789
exps=[];shifts=[];P=[]
for t in range(T):
    ex=[];sh=[];row=[];dens=[];nums=[]
    for h in range(H):
        s=dot(Q[t],D[h]); l=[s*dot(E[t][i],K[h]) for i in range(n)]
        m=min(l); ex.append([x-m for x in l]); sh.append(m)
        pw=[pow(a,x-m,p) for x in l]
        dens.append(sum(pw)%p); nums.append([sum(E[t][i][j]*pw[i] for i in range(n))%p for j in range(d)])
    for h in range(H):
        o=1
        for g in range(H):
            if g!=h: o=o*dens[g]%p
        row+= [x*o%p for x in nums[h]]
    exps.append(ex);shifts.append(sh);P.append(row)
# right inverse: pick pivot columns, invert
N=H*d
A=[P[t][:]+[1 if t==s else 0 for s in range(T)] for t in range(T)]
piv=[];r=0
for c in range(N):
    if r==T: break
    k=next((i for i in range(r,T) if A[i][c]),None)
    if k is None: continue
    A[r],A[k]=A[k],A[r]
    iv=pow(A[r][c],-1,p); A[r]=[x*iv%p for x in A[r]]
    for i in range(T):
        if i!=r and A[i][c]:
            f=A[i][c]; A[i]=[(x-f*y)%p for x,y in zip(A[i],A[r])]
    piv.append(c); r+=1
print("rank",r,"of",T)
assert r==T
W=[[0]*N for _ in range(T)]  # W[s][c]
for k,c in enumerate(piv):
    for s in range(T): W[s][c]=A[k][N+s]
def L(x):
    if isinstance(x,list): return "["+";".join(map(L,x))+"]"
    return f"({x})" if x<0 else str(x)
open(out,"w").write(f"""From Coq Require Import ZArith List Uint63.
From Memorization Require Import layer_checker machine_checker.
Import ListNotations.
Local Open Scope Z_scope.
Definition tokens := {L(E)}.
Definition queries := {L(Q)}.
Definition keys := {L(K)}.
Definition directions := {L(D)}.
Definition exponents := ({L(exps)})%N.
Definition shifts := {L(shifts)}.
Definition witness := ({L([[w[h*d:(h+1)*d] for h in range(H)] for w in W])})%uint63.
Lemma instance_checked : check_layer63 {p}%uint63 {n}%nat {d}%nat {T}%nat {H}%nat {a}%uint63 tokens queries keys directions exponents shifts witness = true.
Proof. Time vm_compute. reflexivity. Time Qed.
""")
