"""JAX programs for stablehlo_test.py: name -> (function, example arguments, keywords of jax.jit).

Short on purpose: each line is a program, each covers operations, types or shardings that others do not.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

PROGRAMS = {}
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
mesh3 = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))


def add(name, fn, *args, **keywords):
    PROGRAMS[name] = (fn, args, keywords)


def shd(name, fn, ins, outs, *args, **keywords):
    PROGRAMS[name] = (fn, args, dict(in_shardings=ins, out_shardings=outs, **keywords))


def S(*axes):
    return NamedSharding(mesh, P(*axes))


def f32(*shape):
    return jnp.zeros(shape, jnp.float32)


def i32(*shape):
    return jnp.zeros(shape, jnp.int32)


def bf(*shape):
    return jnp.zeros(shape, jnp.bfloat16)


def sm(fn, ins, outs, **keywords):
    return shard_map(fn, mesh=mesh, in_specs=ins, out_specs=outs, **keywords)


con = lax.with_sharding_constraint

unary=dict(sin=jnp.sin,cos=jnp.cos,tan=jnp.tan,exp=jnp.exp,log=jnp.log,sqrt=jnp.sqrt,rsqrt=lax.rsqrt,tanh=jnp.tanh,logistic=jax.nn.sigmoid,erf=lax.erf,erfc=lax.erfc,erf_inv=lax.erf_inv,lgamma=lax.lgamma,digamma=lax.digamma,i0e=lax.bessel_i0e,i1e=lax.bessel_i1e,asin=jnp.arcsin,acos=jnp.arccos,atan=jnp.arctan,asinh=jnp.arcsinh,acosh=jnp.arccosh,atanh=jnp.arctanh,sinh=jnp.sinh,cosh=jnp.cosh,cbrt=jnp.cbrt,expm1=jnp.expm1,log1p=jnp.log1p,sign=jnp.sign,floor=jnp.floor,ceil=jnp.ceil,round=jnp.round,isfinite=jnp.isfinite,neg=jnp.negative,abs=jnp.abs,square=jnp.square,sinc=jnp.sinc,exp2=jnp.exp2,gelu=jax.nn.gelu,silu=jax.nn.silu,softplus=jax.nn.softplus,ndtri=jax.scipy.special.ndtri,expit=jax.scipy.special.expit,entr=jax.scipy.special.entr)
add('unary_f32',lambda x: {k:f(x) for k,f in unary.items()},f32(64))
add('unary_bf16',lambda x: {k:f(x) for k,f in unary.items() if k not in ('ndtri','entr','i0e','i1e')},bf(64))
binary=dict(add=jnp.add,sub=jnp.subtract,mul=jnp.multiply,div=jnp.divide,pow=jnp.power,atan2=jnp.arctan2,max=jnp.maximum,min=jnp.minimum,mod=jnp.mod,rem=lax.rem,nextafter=jnp.nextafter,hypot=jnp.hypot,logaddexp=jnp.logaddexp,eq=jnp.equal,lt=jnp.less,ge=jnp.greater_equal,zeta=lax.zeta,copysign=jnp.copysign)
add('binary_f32',lambda x,y:{k:f(x,y) for k,f in binary.items()},f32(64),f32(64))
add('binary_bf16',lambda x,y:{k:f(x,y) for k,f in binary.items() if k not in('zeta',)},bf(64),bf(64))
ints=dict(add=jnp.add,mul=jnp.multiply,fd=jnp.floor_divide,mod=jnp.mod,and_=jnp.bitwise_and,or_=jnp.bitwise_or,xor=jnp.bitwise_xor,shl=jnp.left_shift,shr=jnp.right_shift,lsr=lax.shift_right_logical,max=jnp.maximum,gcd=jnp.gcd,pow=lambda x,y: x**3)
for dt in ('int8','int16','int32','uint8','uint32'):
    add('int_'+dt,lambda x,y:{k:f(x,y) for k,f in ints.items()},jnp.zeros((32,),dt),jnp.zeros((32,),dt))
add('int_unary',lambda x:(lax.clz(x),lax.population_count(x),~x,jnp.sign(x),jnp.abs(x)),i32(32))
add('complex',lambda x,y:(jnp.exp(x),jnp.abs(x),jnp.conj(x),jnp.angle(x),x*y,x/y,jnp.sqrt(x),jnp.real(x),jnp.imag(y),lax.complex(jnp.real(x),jnp.real(y))),jnp.zeros((16,),jnp.complex64),jnp.zeros((16,),jnp.complex64))
add('complex_more',lambda x:(jnp.sin(x),jnp.log(x),jnp.tanh(x),x**2,jnp.sign(x),jnp.expm1(x),jnp.log1p(x),jnp.arctan(x)),jnp.zeros((16,),jnp.complex64))
add('casts',lambda x:[x.astype(t).astype(jnp.float32) for t in (jnp.bfloat16,jnp.float16,jnp.int32,jnp.int8,jnp.uint8,bool,jnp.float8_e4m3fn,jnp.float8_e5m2)],f32(64))
add('bitcasts',lambda x:(lax.bitcast_convert_type(x,jnp.int32),lax.bitcast_convert_type(x,jnp.int16),lax.bitcast_convert_type(x,jnp.uint8)),f32(8,4))
add('reduce_precision',lambda x:(lax.reduce_precision(x,5,10),lax.reduce_precision(x,8,7),jnp.bfloat16(x)),f32(64))
add('select_clamp',lambda x,y:(jnp.where(x>y,x,y),jnp.clip(x,-0.5,0.5),lax.select_n(i32(16)%3,x,y,x),lax.clamp(0.0,x,1.0)),f32(16),f32(16))
add('consts',lambda x:(x+np.arange(200,dtype=np.float32)[:64],x*np.float32(np.pi),jnp.array([1,2,3]),jnp.eye(5),jnp.tri(4),jnp.full((3,3),np.nan),jnp.array([[1e-40,1e30],[-np.inf,np.inf]])),f32(64))
add('consts_bf16',lambda x:(x+jnp.arange(64).astype(jnp.bfloat16)/7,jnp.array(np.linspace(-3,3,200),jnp.bfloat16),jnp.array(np.linspace(-3,3,200),jnp.float16),jnp.array(np.arange(-8,8),jnp.int4).astype(jnp.int32)),bf(64))
add('bigconst',lambda x:x+np.random.RandomState(0).randn(64,64).astype(np.float32),f32(64,64))
# --- shape ops
add('movement',lambda x:(x.T,x.reshape(8,2,-1),jnp.flip(x,0),x[2:9:3,1:],jnp.pad(x,((1,2),(0,3))),jnp.concatenate([x,x],1),jnp.stack([x,x]),jnp.tile(x,(2,1)),jnp.repeat(x,2,0),jnp.roll(x,3,1),x[None,:,None],jnp.squeeze(x[None]),jnp.broadcast_to(x[:, :1],(16,8)),jnp.moveaxis(x[None],0,2),jnp.swapaxes(x,0,1)),f32(16,8))
add('pad_interior',lambda x:lax.pad(x,0.5,((1,-1,2),(-1,2,0))),f32(8,6))
add('dynslice',lambda x,i:(lax.dynamic_slice(x,(i,i),(3,4)),lax.dynamic_update_slice(x,x[:2,:2]*2,(i,0)),lax.dynamic_index_in_dim(x,i,0),x.at[i].set(1.0),x.at[i,:3].add(2.0)),f32(8,8),jnp.int32(0))
add('gather_scatter',lambda x,i:(x[i],x[:,i%4],jnp.take(x,i,axis=1,mode='clip'),jnp.take_along_axis(x,i[:,None]%8,1),x.at[i].add(1.0),x.at[i].mul(2.0),x.at[i].max(0.5),x.at[i,i%8].set(3.0,unique_indices=False)),f32(16,8),i32(16))
add('gather_modes',lambda x,i:(jnp.take(x,i,axis=0,mode='fill'),x.at[i].get(mode='wrap') if False else x[i],x.at[i].add(1.0,mode='drop',indices_are_sorted=True)),f32(16,8),i32(5))
add('segment_sum',lambda x,i:(jax.ops.segment_sum(x,i,4),jax.ops.segment_max(x,i,4)),f32(16,3),i32(16))
add('onehot_embed',lambda t,e:(jax.nn.one_hot(t,10),e[t]),i32(4,6),f32(10,8))
add('sort',lambda x:(jnp.sort(x),jnp.argsort(x),jnp.sort(x,axis=0,descending=True),lax.top_k(x,3),jnp.median(x),jnp.argmax(x,1),jnp.argmin(x),jnp.unique(x,size=5)),f32(8,16))
add('sort_multi',lambda x,y:lax.sort((x,y),num_keys=2),f32(32),i32(32))
add('approx_topk',lambda x:(lax.approx_max_k(x,4),lax.approx_min_k(x,3)),f32(8,64))
add('searchsorted',lambda x,y:(jnp.searchsorted(jnp.sort(x),y),jnp.histogram(x,10)),f32(32),f32(8))
add('cums',lambda x:(jnp.cumsum(x,0),jnp.cumprod(x,1),lax.cummax(x,1),lax.cumlogsumexp(x,0),jnp.cumsum(x,1)[:,::-1]),f32(8,16))
add('reductions',lambda x:(x.sum(),x.mean(0),x.prod(1),x.max(),x.min(1),x.std(),x.var(0),jnp.any(x>0),jnp.all(x>0,1),jax.nn.logsumexp(x,1),jnp.linalg.norm(x),jnp.argmax(x)),f32(8,16))
add('softmax',lambda x:(jax.nn.softmax(x),jax.nn.log_softmax(x,0)),f32(8,16))
add('reduce_custom',lambda x:lax.reduce((x,x),(0.0,1.0),lambda a,b:(a[0]+b[0],a[1]*b[1]+a[0]),(0,)),f32(8,4))
add('reduce_window',lambda x:(lax.reduce_window(x,-jnp.inf,lax.max,(1,2,2,1),(1,2,2,1),'VALID'),lax.reduce_window(x,0.0,lax.add,(1,3,3,1),(1,1,1,1),'SAME')),f32(2,8,8,3))
add('pool_grad',jax.grad(lambda x:lax.reduce_window(x,-jnp.inf,lax.max,(1,2,2,1),(1,2,2,1),'SAME').sum()),f32(2,7,7,3))
# --- dots and convs
add('dots',lambda a,b:(a@b,jnp.einsum('ij,jk->ki',a,b),jnp.dot(a,b,precision='highest'),jnp.dot(a.astype(jnp.bfloat16),b.astype(jnp.bfloat16),preferred_element_type=jnp.float32)),f32(8,16),f32(16,4))
add('einsum_batch',lambda q,k,v:jnp.einsum('bhqk,bkhd->bqhd',jax.nn.softmax(jnp.einsum('bqhd,bkhd->bhqk',q,k)),v),f32(2,6,4,8),f32(2,6,4,8),f32(2,6,4,8))
add('dot_int',lambda a,b:(lax.dot(a,b,preferred_element_type=jnp.int32)),jnp.zeros((4,8),jnp.int8),jnp.zeros((8,4),jnp.int8))
add('dot_algorithm',lambda a,b:lax.dot_general(a,b,(((1,),(0,)),((),())),precision=lax.DotAlgorithmPreset.BF16_BF16_F32_X3),f32(8,8),f32(8,8))
add('tensordot',lambda a,b:(jnp.tensordot(a,b,2),jnp.outer(a[0,0],b[0,0]),jnp.kron(a[0],b[0]),jnp.vdot(a,a)),f32(3,4,5),f32(4,5,6))
add('ragged_dot',lambda a,b,g:lax.ragged_dot(a,b,g),f32(12,4),f32(3,4,5),jnp.array([4,4,4],jnp.int32)*0+4)
add('conv',lambda x,k:(lax.conv_general_dilated(x,k,(1,1),'SAME',dimension_numbers=('NHWC','HWIO','NHWC')),lax.conv_general_dilated(x,k,(2,2),((1,2),(0,1)),rhs_dilation=(2,1),dimension_numbers=('NHWC','HWIO','NHWC'))),f32(2,9,9,4),f32(3,3,4,6))
add('conv_grouped',lambda x,k:lax.conv_general_dilated(x,k,(1,1),'VALID',feature_group_count=2,dimension_numbers=('NCHW','OIHW','NCHW')),f32(2,4,8,8),f32(6,2,3,3))
add('conv1d',lambda x,k:(jnp.convolve(x,k),lax.conv(x[None,None],k[None,None],(1,),'SAME')),f32(16),f32(5))
add('conv_transpose',lambda x,k:lax.conv_transpose(x,k,(2,2),'SAME',dimension_numbers=('NHWC','HWIO','NHWC')),f32(2,5,5,3),f32(3,3,3,4))
add('conv_grad',jax.grad(lambda k,x:jnp.sum(lax.conv_general_dilated(x,k,(2,2),'SAME',dimension_numbers=('NHWC','HWIO','NHWC'))**2)),f32(3,3,4,6),f32(2,9,9,4))
add('conv_group_grad',jax.grad(lambda k,x:jnp.sum(lax.conv_general_dilated(x,k,(1,1),'SAME',feature_group_count=4,dimension_numbers=('NHWC','HWIO','NHWC'))**2)),f32(3,3,1,8),f32(2,6,6,4))
# --- control
add('scan_rnn',lambda w,h,xs:lax.scan(lambda c,x:((y:=jnp.tanh(c@w+x)),y.sum()),h,xs),f32(8,8),f32(4,8),f32(6,4,8))
add('scan_grad',jax.grad(lambda w,h,xs:lax.scan(lambda c,x:(jnp.tanh(c@w+x),()),h,xs)[0].sum()),f32(8,8),f32(4,8),f32(6,4,8))
add('scan_reverse',lambda xs:lax.scan(lambda c,x:(c*0.5+x,c),0.0,xs,reverse=True),f32(7))
add('scan_unroll',lambda xs:lax.scan(lambda c,x:(c*0.5+x,c),0.0,xs,unroll=3),f32(7))
add('scan_nested',lambda x:lax.scan(lambda c,a:(lax.fori_loop(0,3,lambda i,z:z*0.9+a,c),c.sum()),x[0],x),f32(5,4))
add('while_loop',lambda x,y:lax.while_loop(lambda s:(s[0]<5)&(s[1].sum()<1e6),lambda s:(s[0]+1,s[1]*2+y),(0,x)),f32(8),f32(8))
add('fori_capture',lambda x,y,n:lax.fori_loop(0,n,lambda i,z:jnp.sin(z+y*i)+x,x),f32(8),f32(8),jnp.int32(4))
add('cond',lambda p,x,y:(lax.cond(p,lambda a:a+1,lambda a:a*y,x),lax.cond(x.sum()>0,lambda:x,lambda:y)),jnp.bool_(True),f32(8),f32(8))
add('switch',lambda i,x,y:lax.switch(i,[lambda:(x,y),lambda:(y,x),lambda:(x+y,x*y),lambda:(x,jnp.ones_like(x))]),jnp.int32(1),f32(8),f32(8))
add('map',lambda x:lax.map(lambda r:jnp.sort(r)*2,x),f32(5,8))
add('vmap_while',lambda x:jax.vmap(lambda a:lax.while_loop(lambda s:s<10,lambda s:s*2+1,a))(jnp.abs(x)+1),f32(5))
add('assoc_scan',lambda x:lax.associative_scan(jnp.add,x),f32(13,4))
add('remat',jax.grad(lambda w,x:jax.checkpoint(lambda w,x:jnp.sin(x@w)@w)(w,x).sum()),f32(8,8),f32(4,8))
add('custom_vjp_relu6',jax.grad(lambda x:jax.nn.relu6(x).sum()+jax.nn.leaky_relu(x).sum()),f32(16))
add('jit_nested',lambda x:jax.jit(lambda a:jax.jit(jnp.sin)(a)+jax.jit(jnp.sin)(a*2))(x),f32(4))
add('hessian',jax.hessian(lambda x:jnp.sum(jnp.sin(x)*x**2)),f32(5))
add('jvp',lambda x,t:jax.jvp(lambda y:jnp.tanh(y)*jnp.exp(-y),(x,),(t,)),f32(5),f32(5))
# --- random, linalg, fft
add('rand',lambda s:(lambda k:(jax.random.normal(k,(8,)),jax.random.uniform(k,(4,4)),jax.random.randint(k,(5,),0,10),jax.random.bernoulli(k,0.3,(6,)),jax.random.split(k,3),jax.random.truncated_normal(k,-1,1,(4,))))(jax.random.wrap_key_data(s)) and tuple(jax.random.key_data(jax.random.split(jax.random.wrap_key_data(s),3))),jnp.zeros((2,),jnp.uint32))
add('rand2',lambda s:(lambda k:(jax.random.normal(k,(8,)),jax.random.uniform(k,(4,4)),jax.random.randint(k,(5,),0,10),jax.random.bernoulli(k,0.3,(6,)),jax.random.permutation(k,10),jax.random.gumbel(k,(4,)),jax.random.categorical(k,jnp.zeros((3,4))),jax.random.exponential(k,(4,)),jax.random.laplace(k,(4,)),jax.random.choice(k,12,(4,))))(jax.random.wrap_key_data(s)),jnp.zeros((2,),jnp.uint32))
add('rand_gamma',lambda s:jax.random.gamma(jax.random.wrap_key_data(s),2.0,(4,)),jnp.zeros((2,),jnp.uint32))
add('rbg',lambda s:(lambda k:jax.random.bits(k,(8,)))(jax.random.wrap_key_data(s,impl='rbg')),jnp.zeros((4,),jnp.uint32))
add('cholesky',lambda a:jnp.linalg.cholesky(a@a.T+jnp.eye(6)*6),f32(6,6))
add('solve',lambda a,b:(jnp.linalg.solve(a+jnp.eye(6)*6,b),jax.scipy.linalg.solve_triangular(a+jnp.eye(6)*6,b,lower=True)),f32(6,6),f32(6,2))
add('inv_det',lambda a:(jnp.linalg.inv(a+jnp.eye(4)*4),jnp.linalg.det(a),jnp.linalg.slogdet(a+jnp.eye(4)*4)),f32(4,4))
add('qr',lambda a:jnp.linalg.qr(a+jnp.eye(6,4)),f32(6,4))
add('fft',lambda x:(jnp.fft.fft(x),jnp.fft.rfft(x.real),jnp.fft.irfft(x[:,:9],n=16),jnp.fft.fft2(x),jnp.fft.ifft(x)),jnp.zeros((4,16),jnp.complex64))
add('special',lambda x,y:(jax.scipy.special.gammainc(jnp.abs(x)+1,jnp.abs(y)),jax.scipy.special.betainc(jnp.abs(x)+.5,jnp.abs(y)+.5,jax.nn.sigmoid(x)),jax.scipy.special.polygamma(1,jnp.abs(x)+1),jax.scipy.special.gammaln(x),jax.scipy.special.i0(x),jax.scipy.special.i1(x)),f32(8),f32(8))
add('interp',lambda x,xp:(jnp.interp(x,jnp.sort(xp),xp),jnp.polyval(xp[:4],x),jnp.trapezoid(x),jnp.digitize(x,jnp.sort(xp))),f32(8),f32(8))
add('image',lambda x:jax.image.resize(x,(2,6,6,3),'bilinear'),f32(2,4,4,3))
# --- sharded
shd('s_mlp',lambda x,w,v:jax.nn.relu(x@w)@v,(S('data'),S(None,'model'),S('model')),S('data'),f32(16,32),f32(32,64),f32(64,32))
shd('s_mlp_grad',lambda x,w,v:jax.grad(lambda w,v:jnp.mean((jax.nn.gelu(x@w)@v)**2),argnums=(0,1))(w,v),(S('data'),S(None,'model'),S('model')),None,f32(16,32),f32(32,64),f32(64,32))
shd('s_attention',lambda x,wq,wk,wv:(lambda q,k,v:jnp.einsum('bhqk,bkhd->bqhd',jax.nn.softmax(jnp.einsum('bqhd,bkhd->bhqk',q,k)),v))(*(con(jnp.einsum('bsd,dhe->bshe',x,w),S('data',None,'model',None)) for w in(wq,wk,wv))),(S('data'),S(None,'model'),S(None,'model'),S(None,'model')),None,f32(8,6,16),f32(16,4,8),f32(16,4,8),f32(16,4,8))
shd('s_scan',lambda ws,x:lax.scan(lambda h,w:(con(jnp.tanh(h@w),S('data',None)),h.sum()),x,ws),(S(None,None,'model'),S('data')),(S('data'),None),f32(5,32,32),f32(16,32))
shd('s_scan_grad',lambda ws,x:jax.grad(lambda ws:lax.scan(jax.checkpoint(lambda h,w:(jnp.tanh(h@w),())),x,ws)[0].sum())(ws),(S(None,None,'model'),S('data')),S(None,None,'model'),f32(5,32,32),f32(16,32))
shd('s_unconstrained',lambda x:con(x*2,NamedSharding(mesh,P('data',P.UNCONSTRAINED))),(S(None,'model'),),None,f32(16,32))
shd('s_transpose',lambda x:(x.T,x.reshape(8,2,32),jnp.sum(x,0)),(S('data','model'),),None,f32(16,32))
shd('s_embed',lambda e,t:e[t],(S('model'),S('data')),S('data'),f32(100,16),i32(8,4))
shd('s_donate',lambda p,g:(p-0.1*g,(g*g).sum()),(S('data'),S('data')),(S('data'),None),f32(16,8),f32(16,8),donate_argnums=(0,))
shd('s_sort',lambda x:(jnp.sort(x,1),lax.top_k(x,2)),(S('data','model'),),None,f32(16,32))
shd('s_conv',lambda x,k:lax.conv_general_dilated(x,k,(1,1),'SAME',dimension_numbers=('NHWC','HWIO','NHWC')),(S('data'),S(None,None,None,'model')),None,f32(8,8,8,4),f32(3,3,4,8))
shd('s_3axes',lambda x,w:con(x@w,NamedSharding(mesh3,P(('a','b'),'c'))),(NamedSharding(mesh3,P('a',('b','c'))),NamedSharding(mesh3,P(('b','c'),None))),None,f32(8,16),f32(16,8))
shd('s_uneven',lambda x,w:(x@w).sum(1),(S(('data','model')),S(None,'model')),None,f32(16,10),f32(10,6))
shd('s_while',lambda x:lax.while_loop(lambda s:s[0]<3,lambda s:(s[0]+1,con(s[1]*2,S('data','model'))),(0,x))[1],(S('data'),),None,f32(16,8))
shd('s_cond',lambda p,x:lax.cond(p,lambda a:con(a+1,S('data')),lambda a:a*2,x),(None,S('data')),None,jnp.bool_(True),f32(16,8))
shd('s_rng',lambda s:con(jax.random.normal(jax.random.wrap_key_data(s),(16,8)),S('data','model')),(None,),None,jnp.zeros((2,),jnp.uint32))
shd('s_moe',lambda x,wi,wo,g:(lambda d:jnp.einsum('ecd,ech->edh',*(lambda h:(h,h))(con(jnp.einsum('ecd,edh->ech',d,wi),S('data',None,'model')))) )(con(jnp.einsum('sec,sd->ecd',jax.nn.one_hot(jnp.argmax(x@g,-1),4)[:,:,None]*jnp.ones((1,1,8)),x),S('data'))),(S('data'),S('data'),S('data'),None),None,f32(32,16),f32(4,16,32),f32(4,32,16),f32(16,4))
add('m_psum',sm(lambda x:lax.psum(x,'data'),P('data'),P()),f32(16,8))
add('m_all',sm(lambda x,w:lax.all_gather(lax.psum_scatter(x@w,'model',scatter_dimension=1,tiled=True),'data',axis=0,tiled=True),(P('data','model'),P('model',None)),P(None,'model'),check_vma=False),f32(16,8),f32(8,8))
add('m_permute',sm(lambda x:lax.ppermute(x,'data',[(i,(i+1)%4) for i in range(4)])+lax.axis_index('model'),P('data','model'),P('data','model')),f32(16,8))
add('m_a2a',sm(lambda x:lax.all_to_all(x,'data',1,0,tiled=True),P('data',None),P(None,'data')),f32(16,8))
add('m_a2a_untiled',sm(lambda x:lax.all_to_all(x,'model',0,1),P(None,'data'),P(None,'data'),check_vma=False),f32(2,16,4))
add('m_partial',jax.shard_map(lambda x:lax.psum(x,'data')*2,mesh=mesh,in_specs=P('data'),out_specs=P(),axis_names={'data'}),f32(16,8))
add('m_scan',sm(lambda x:lax.scan(lambda c,_:(lax.ppermute(c,'data',[(0,1),(1,2),(2,3),(3,0)]),c.sum()),x,None,length=4)[0],P('data'),P('data'),check_vma=False),f32(16,8))
add('m_pmax',sm(lambda x:(lax.pmax(x,'data'),lax.pmin(x,'model'),lax.pmean(x,('data','model'))),P('data','model'),(P(None,'model'),P('data',None),P()),check_vma=False),f32(16,8))
add('m_grad',jax.grad(lambda w,x:sm(lambda w,x:lax.psum(jnp.sum((x@w)**2),('data','model')),(P(None,'model'),P('data')),P())(w,x)),f32(8,8),f32(16,8))
add('m_calls',lambda x:jax.jit(jnp.tanh)(sm(lambda a:jax.jit(jnp.tanh)(a)*2,P('data'),P('data'))(jax.jit(jnp.tanh)(x))),f32(16,8))
add('m_nested_jit',lambda x:sm(jax.jit(lambda a:jax.nn.softmax(a)+lax.axis_index('data')),P('data'),P('data'))(x)+jax.nn.softmax(x),f32(16,8))


# --- what the export leaves out or knows already; forms that libraries make of masks, scans and samplers
add('tril_mask',lambda x:jnp.where(jnp.tril(jnp.ones((8,8),bool)),x@x.T,-1e9),f32(8,4))
add('diag_grad',jax.grad(lambda x:(jnp.diag(jax.nn.log_softmax(x))**2).sum()),f32(8,8))
add('zero_size',lambda x,y:(jnp.concatenate([x,y]),y.sum(),jnp.pad(y,((2,1),(0,0)),constant_values=3.0)),f32(8,4),f32(0,4))
add('binomial',lambda s:jax.random.binomial(jax.random.wrap_key_data(s),10,0.3,(8,)),jnp.zeros((2,),jnp.uint32))
add('segment_softmax',lambda x,k:(lambda e:e/jax.ops.segment_sum(e,k,4)[k])(jnp.exp(x-jax.ops.segment_max(x,k,4)[k])),f32(16),i32(16))
add('selective_scan',jax.grad(lambda a,b:lax.associative_scan(lambda p,q:(p[0]*q[0],q[0]*p[1]+q[1]),(jax.nn.sigmoid(a),b))[1].sum(),argnums=(0,1)),f32(13,4),f32(13,4))
add('ragged_grad',jax.grad(lambda x,w,g:(lax.ragged_dot(x,w,g)**2).sum(),argnums=(0,1)),f32(12,4),f32(3,4,5),jnp.array([4,0,8],jnp.int32))
add('gae_reverse',lambda r,v:lax.scan(lambda a,x:((x[0]-x[1]+.9*a),)*2,jnp.zeros(4),(r,v),reverse=True)[1],f32(6,4),f32(6,4))
add('edit_distance',lambda a,b:lax.scan(lambda r,c:(lambda z:(lax.associative_scan(jnp.minimum,z-jnp.arange(9))+jnp.arange(9),None))(jnp.concatenate([r[:1]+1,jnp.minimum(r[1:]+1,r[:-1]+(b!=c))])),jnp.arange(9),a)[0],i32(8),i32(8))
add('passed_on',lambda x,y,n:lax.while_loop(lambda s:s[1]<s[2],lambda s:(s[0]*s[3],s[1]+1,s[2],s[3]),(x,0,n,y)),f32(8),f32(8),jnp.int32(3))


def libs():
    try:
        import flax.linen as nn, optax
        class MLP(nn.Module):
            @nn.compact
            def __call__(self,x):
                x=nn.Dense(32)(x); x=nn.LayerNorm()(x); x=nn.gelu(x); x=nn.Dropout(0.1,deterministic=True)(x)
                return nn.Dense(10)(x)
        class CNN(nn.Module):
            @nn.compact
            def __call__(self,x,train=True):
                x=nn.Conv(8,(3,3))(x); x=nn.BatchNorm(use_running_average=False)(x); x=nn.relu(x); x=nn.avg_pool(x,(2,2),(2,2)); x=nn.max_pool(x,(2,2),(2,2))
                return nn.Dense(10)(x.reshape(x.shape[0],-1))
        class TF(nn.Module):
            @nn.compact
            def __call__(self,t):
                x=nn.Embed(50,32)(t); y=nn.LayerNorm()(x); y=nn.MultiHeadDotProductAttention(4)(y,y,mask=nn.make_causal_mask(t)); x=x+y
                return nn.Dense(50)(nn.GroupNorm(4)(x))
        class RNN(nn.Module):
            @nn.compact
            def __call__(self,x): return nn.RNN(nn.LSTMCell(16))(x)+nn.RNN(nn.GRUCell(16))(x)
        for name,m,inp in (('mlp',MLP(),f32(8,16)),('cnn',CNN(),f32(4,16,16,3)),('tf',TF(),i32(4,8)),('rnn',RNN(),f32(4,6,8))):
            v=jax.eval_shape(lambda:m.init(jax.random.key(0),inp))
            v=jax.tree.map(lambda a:jnp.zeros(a.shape,a.dtype),v)
            mut=['batch_stats'] if name=='cnn' else False
            def loss(p,rest,x,m=m,mut=mut):
                o=m.apply({**rest,'params':p},x,mutable=mut); o=o[0] if mut else o
                return (o.astype(jnp.float32)**2).mean()
            rest={k:w for k,w in v.items() if k!='params'}
            add('flax_'+name,lambda p,rest,x,loss=loss:loss(p,rest,x),v['params'],rest,inp)
            add('flax_%s_grad'%name,lambda p,rest,x,loss=loss:jax.grad(loss)(p,rest,x),v['params'],rest,inp)
            for on,o in (('adam',optax.adam(1e-3)),('adamw',optax.adamw(1e-3,weight_decay=.1)),('sgd',optax.sgd(.1,momentum=.9,nesterov=True)),('lion',optax.lion(1e-3)),('adafactor',optax.adafactor(1e-3)),('chain',optax.chain(optax.clip_by_global_norm(1.0),optax.scale_by_rms(),optax.scale_by_schedule(optax.cosine_decay_schedule(.1,100))))):
                if name not in('mlp','tf') : continue
                st=o.init(v['params'])
                def step(p,st,rest,x,o=o,loss=loss):
                    g=jax.grad(loss)(p,rest,x); u,st=o.update(g,st,p); return optax.apply_updates(p,u),st
                add('optax_%s_%s'%(name,on),step,v['params'],st,rest,inp)
    except ImportError: print('SKIPPED: flax and optax are absent')
    try:
        import equinox as eqx
        m=eqx.nn.MLP(8,4,16,2,key=jax.random.key(0))
        pa,stt=eqx.partition(m,eqx.is_array)
        add('eqx_mlp',lambda p,x:jax.vmap(eqx.combine(p,stt))(x),pa,f32(5,8))
        g=eqx.nn.GRUCell(8,16,key=jax.random.key(0)); gp,gs=eqx.partition(g,eqx.is_array)
        add('eqx_gru',lambda p,x,h:eqx.combine(p,gs)(x,h),gp,f32(8),f32(16))
        at=eqx.nn.MultiheadAttention(2,8,key=jax.random.key(0)); ap,as_=eqx.partition(at,eqx.is_array)
        add('eqx_attn',lambda p,x:eqx.combine(p,as_)(x,x,x),ap,f32(5,8))
        c=eqx.nn.Conv2d(3,4,3,key=jax.random.key(0)); cp,cs=eqx.partition(c,eqx.is_array)
        add('eqx_conv',lambda p,x:eqx.combine(p,cs)(x),cp,f32(3,8,8))
        add('eqx_grad',lambda p,x:eqx.filter_grad(lambda q:jnp.mean(jax.vmap(eqx.combine(q,stt))(x)**2))(p),pa,f32(5,8))
    except ImportError: print('SKIPPED: equinox is absent')


libs()
