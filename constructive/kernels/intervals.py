"""Proved intervals."""
from dataclasses import dataclass, replace
import numpy as np
from constructive.exact.kernel_model import KernelModel, kernel_model_named
from constructive.kernels.enclosure import enclose
from constructive.kernels.inputs import exactly, read
def bounds(q,k,v,mask=None,scale=None,model="flash bfloat16",*,softcap=None,bias=None,sinks=None,depth=None,block=None):
    m=kernel_model_named(model)
    m=replace(m,depth=depth,block=block or m.block)
    g=read(q,k,v,m.storage,mask=mask,scale=scale,softcap=softcap,bias=bias,sinks=sinks)
    return enclose(g,m)
