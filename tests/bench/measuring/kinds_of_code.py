"""Kinds of code that one process may run inside `measure`: each returns what it has computed.

A kind that takes an argument gets a function that makes the block, so that some of its code is
outside.
"""

import contextlib
import copy
import gc
import io
import mmap
import pickle
import signal
import tempfile
import threading
import warnings
import weakref

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.func import functional_call, grad, hessian, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrizations, parametrize
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from torch.utils.data import DataLoader, TensorDataset

KINDS = {}


def kind(function):
    """Register a kind of code under its function's name."""
    KINDS[function.__name__] = function
    return function


def matrix(n=4):
    return torch.randn(n, n)


def leaf(n=4):
    return torch.randn(n, n, requires_grad=True)


def layers():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def gradients(model, loss):
    loss.backward()
    return [parameter.grad for parameter in model.parameters()]


# ---- Layouts and kinds of tensors ----


@kind
def sparse_coo():
    x = matrix().relu().to_sparse().requires_grad_()
    y = torch.sparse.mm(x, matrix()).sum()
    y.backward()
    return y, x.grad.to_dense(), (x.detach() * 2).coalesce().values(), (x + x).to_dense()


@kind
def sparse_made_and_changed():
    x = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [1.0, 2.0, 3.0], (2, 3))
    y = x.clone()
    y.add_(x)
    return y.is_coalesced(), y.coalesce(), x.sparse_mask(y.coalesce()), torch.stack([x, y])


@kind
def sparse_csr():
    x = matrix().relu().to_sparse_csr()
    blocks = matrix().to_sparse_bsr((2, 2))
    return x @ matrix(), x.to_sparse_csc().to_dense(), blocks.values(), x.to_sparse_coo()


@kind
def sparse_embedding():
    model = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters())
    (gradient,) = gradients(model, model(torch.tensor([1, 1, 4])).pow(2).sum())
    optimizer.step()
    return gradient, model.weight


@kind
def quantized():
    x = torch.quantize_per_tensor(matrix(), 0.1, 3, torch.qint8)
    by_row = torch.quantize_per_channel(matrix(), torch.ones(4), torch.zeros(4), 0, torch.quint8)
    return x.dequantize(), x.int_repr(), by_row.dequantize(), torch.quantize_per_tensor(
        x.dequantize(), 0.1, 3, torch.qint8
    ).q_scale()


@kind
def nested_strided():
    x = torch.nested.nested_tensor([matrix(2), matrix(3)], requires_grad=True)
    y = x * 2
    y.to_padded_tensor(0.0).sum().backward()
    return y.to_padded_tensor(0.0), x.grad.to_padded_tensor(0.0), list(x.unbind())


@kind
def nested_jagged():
    parts = [torch.randn(2, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)]
    x = torch.nested.as_nested_tensor(parts, layout=torch.jagged)
    y = F.layer_norm(x @ torch.ones(4, 4), (4,))
    (y.values() * torch.arange(4)).sum().backward()
    return y.values(), y.offsets(), parts[0].grad


@kind
def mkldnn_layout():
    return matrix().to_mkldnn().relu().to_dense() if torch.backends.mkldnn.is_available() else 0


@kind
def masked_tensor():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.masked.masked_tensor(matrix(), matrix() > 0)
        return x.sum(0).get_data(), (x + x).get_mask()


@kind
def complex_and_bool():
    x = torch.randn(4, dtype=torch.complex64, requires_grad=True)
    (x.conj() * x).real.sum().backward()
    real = torch.view_as_real(x.detach())
    return x.grad, torch.fft.fft(x.detach()), real, x.detach().conj(), matrix() > 0, x.detach().imag


@kind
def small_dtypes():
    x = matrix()
    kinds = torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32, torch.bfloat16
    return [x.abs().to(dtype).to(torch.float32) for dtype in kinds]


@kind
def empty_and_scalar():
    x = torch.empty(0, 4, requires_grad=True)
    y = torch.tensor(3.0, requires_grad=True)
    (x.sum() + y * y).backward()
    return x.grad, y.grad, torch.cat([x, matrix()]), y.item(), torch.empty(0).storage_offset()


@kind
def meta_tensors():
    x = torch.empty(1 << 20, 1 << 20, device="meta", requires_grad=True)
    y = (x @ x).sum()
    y.backward()
    with torch.device("meta"):
        model = layers()
    return list(x.grad.shape), model.to_empty(device="cpu")[0].weight.shape


@kind
def fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x = torch.empty(1 << 20, 1 << 20, requires_grad=True)
        (x @ x).sum().backward()
        inner = mode.from_tensor(torch.ones(3))
    return list(x.grad.shape), type(inner).__name__


@kind
def shared_memory():
    x = matrix().share_memory_()
    with tempfile.NamedTemporaryFile() as file:
        on_disk = torch.from_file(file.name, shared=True, size=16)
        on_disk.copy_(x.flatten())
        return x.is_shared(), on_disk + 1


@kind
def buffers():
    memory = mmap.mmap(-1, 64)
    memory[:16] = bytes(range(16))
    array = np.arange(6.0)
    x = torch.from_numpy(array)
    x += 1
    view = matrix().numpy()
    view[0] = 5
    whole = torch.frombuffer(memory, dtype=torch.uint8).clone()
    return whole, array.tolist(), torch.from_dlpack(x), np.asarray(x).sum(), view


@kind
def resize_and_set():
    x, y = torch.arange(6.0), torch.ones(2)
    x.resize_(2, 2)
    y.set_(x.untyped_storage(), 1, (2,), (2,))
    y += 10
    z = torch.empty(0)
    torch.add(x, x, out=z)
    x.untyped_storage().resize_(64)
    swapped = torch.zeros(3)
    swapped.data = x
    return x, y, z, x.untyped_storage().nbytes(), swapped


@kind
def views_changed_in_place():
    x = leaf()
    y = x * 1
    y[0].mul_(3)
    y.T[1] += y.detach()[2]
    y.as_strided((2, 2), (1, 4)).add_(1)
    y.square().sum().backward()
    return x.grad, y, y.diagonal(), y.unfold(0, 2, 1), y._version


@kind
def changed_after_saving():
    x = leaf()
    y = x.exp()
    y.add_(1)
    y.sum().backward()  # raises


@kind
def wrong_shapes():
    matrix(3) @ matrix(4)  # raises


@kind
def singular_matrix():
    torch.linalg.inv(torch.zeros(3, 3))  # raises


# ---- Subclasses and modes ----


class Named(torch.Tensor):
    """A subclass by `__torch_function__` that notes which functions it sees."""

    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


@kind
def subclass_by_function():
    Named.seen.clear()
    x = matrix().as_subclass(Named).requires_grad_()
    y = (x.exp() * 2).sum()
    y.backward()
    return type(y).__name__, y.as_subclass(torch.Tensor), x.grad, list(Named.seen)


class Wrapper(torch.Tensor):
    """A subclass by `__torch_dispatch__` that notes which operators it sees."""

    seen = []

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))
        args = tree_map_only(cls, lambda wrapper: wrapper.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, cls, func(*args[0], **args[1]))


class Traceable(Wrapper):
    def __tensor_flatten__(self):
        return ["inner"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["inner"])


class Undetachable(Wrapper):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if "detach" in str(func):
            raise NotImplementedError("no detach")
        return super().__torch_dispatch__(func, types, args, kwargs)


def train_wrapped(cls):
    cls.seen.clear()
    inner = matrix()
    x = cls(inner).requires_grad_()
    y = (x * matrix()).exp() @ x
    y.sum().backward()
    return y.inner, x.grad.inner, type(y).__name__, [one for one in cls.seen if "detach" not in one]


@kind
def wrapper_subclass():
    return train_wrapped(Wrapper)


@kind
def traceable_subclass():
    return train_wrapped(Traceable)


@kind
def subclass_without_detach():
    x = Undetachable(matrix())
    weight = leaf()
    ((x * weight) * weight.exp()).sum()
    return x.inner


@kind
def subclass_of_parameter():
    class Tagged(nn.Parameter):
        tag = "tag"

    layer = nn.Linear(3, 3)
    layer.weight = Tagged(layer.weight.detach())
    layer.weight.extra = 7
    return gradients(layer, layer(torch.ones(2, 3)).sum()), layer.weight.tag, layer.weight.extra


class Operators(TorchDispatchMode):
    """A mode that notes the operators it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


@kind
def dispatch_mode_inside():
    model = layers()
    with Operators() as mode:
        return gradients(model, model(matrix()).exp().sum()), without_detach(mode.seen)


@kind
def function_mode_inside():
    x = leaf()
    with Functions() as mode:
        x.exp().mul(x).sum().backward()
    return x.grad, mode.seen


@kind
def mode_that_changes_results():
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ops.aten.add.Tensor else result

    with Doubled():
        return matrix() + matrix()


@kind
def default_device():
    with torch.device("cpu"):
        return torch.ones(3), nn.Linear(3, 3)(torch.ones(3))


@kind
def flop_counter():
    from torch.utils.flop_counter import FlopCounterMode

    model = layers()
    with FlopCounterMode(display=False) as counter:
        gradients(model, model(matrix()).sum())
    return counter.get_total_flops()


# ---- torch.func ----


@kind
def func_grad():
    def loss(x, y):
        return (x @ y).tanh().sum()

    x, y = matrix(), matrix()
    return grad(loss)(x, y), grad(lambda x: grad(loss)(x, y).sum())(x), hessian(torch.sum)(x)


@kind
def func_jacobians():
    x = torch.randn(3)
    out, pull = vjp(torch.sin, x)
    return jacrev(torch.exp)(x), jvp(torch.exp, (x,), (x,)), out, pull(x)


@kind
def func_vmap():
    x = torch.randn(5, 3)
    return vmap(torch.dot)(x, x), vmap(lambda x: F.dropout(x, 0.5), randomness="different")(x)


@kind
def func_per_sample_gradients():
    model = layers()
    parameters = dict(model.named_parameters())

    def loss(parameters, x):
        return functional_call(model, parameters, (x,)).square().sum()

    per_sample = vmap(grad(loss), in_dims=(None, 0))(parameters, matrix())
    after = gradients(model, model(matrix()).sum())
    return per_sample, after


@kind
def func_of_custom_function():
    class Cube(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * gradient

    x = torch.randn(3, requires_grad=True)
    inside = vmap(grad(Cube.apply))(x)
    Cube.apply(x).sum().backward()
    return inside, x.grad


@kind
def func_inside_hooks():
    with saved_tensors_hooks(lambda x: x, lambda x: x):
        return grad(torch.sum)(torch.ones(3))  # raises


@kind
def old_functional():
    x = torch.randn(3)
    both = torch.autograd.functional.jacobian(torch.exp, x, vectorize=True)
    return both, torch.autograd.functional.hvp(lambda x: x.pow(3).sum(), x, x)


# ---- Autograd ----


class Scale(torch.autograd.Function):
    """A function whose backward needs its weight's attribute, as Megatron's `main_grad`."""

    @staticmethod
    def forward(ctx, x, weight, extra):
        ctx.save_for_backward(x, weight, extra)
        ctx.kept, ctx.view = weight, x[0]
        ctx.set_materialize_grads(False)
        return x * weight, extra.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, unused):
        x, weight, extra = ctx.saved_tensors
        assert weight is ctx.kept and type(weight) is nn.Parameter and unused is None
        weight.main_grad += (x * gradient).sum(0)
        return gradient * weight * extra.factor, None, None


@kind
def custom_function():
    x, weight, extra = leaf(), nn.Parameter(torch.randn(4)), leaf() * 1
    weight.main_grad, extra.factor = torch.zeros(4), 3
    y, _ = Scale.apply(x, weight, extra)
    y.sum().backward()
    return x.grad, weight.main_grad


@kind
def function_that_saves_its_output():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, gradient):
            (y,) = ctx.saved_tensors
            return gradient * y

    x = leaf()
    y = Exp.apply(x)
    dies = weakref.ref(y.grad_fn)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    del y, first
    return second, dies() is None


@kind
def function_in_place():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = leaf()
    Twice.apply(x * 1).exp().sum().backward()
    return x.grad


@kind
def subclass_in_custom_function():
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.as_subclass(torch.Tensor) * 2

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            kinds.append((type(x).__name__, getattr(x, "tag", None)))
            return gradient * 2

    kinds, base = [], leaf()
    x = (base * 3).as_subclass(Named)
    x.tag = "t"
    Keep.apply(x).sum().backward()
    return kinds, base.grad


@kind
def double_backward():
    x = leaf()
    (first,) = torch.autograd.grad(x.pow(3).tanh().sum(), x, create_graph=True)
    first.square().sum().backward()
    return first, x.grad


@kind
def backward_twice():
    x = leaf()
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    try:
        y.backward()
    except RuntimeError as error:
        return x.grad, str(error)


@kind
def nodes_of_a_graph():
    x = leaf()
    y = x.exp()
    saved = y.grad_fn._saved_result
    y.grad_fn._raw_saved_result.register_hooks(lambda x: x.half(), lambda x: x.float())
    y.sum().backward()
    return saved, x.grad


@kind
def hooks_of_the_user():
    log = []

    def pack(x):
        log.append(list(x.shape))
        return x.detach().numpy()

    x = leaf()
    with saved_tensors_hooks(pack, torch.from_numpy):
        y = (x.exp() * x).sum()
    y.backward()
    return x.grad, log


@kind
def saving_on_cpu():
    x = leaf()
    with save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    return x.grad


@kind
def checkpointing():
    x, model = matrix().requires_grad_(), layers()
    z = checkpoint(model, x, use_reentrant=False)
    return gradients(model, checkpoint(model, x, use_reentrant=True).sum() + z.sum()), x.grad


@kind
def selective_checkpointing():
    def contexts():
        return create_selective_checkpoint_contexts([torch.ops.aten.mm.default])

    x, y = leaf(), leaf()
    z = checkpoint(lambda x, y: (x @ y).sin().exp(), x, y, use_reentrant=False, context_fn=contexts)
    z.sum().backward()
    return x.grad, y.grad


@kind
def autocast():
    model = layers()
    with torch.autocast("cpu", torch.bfloat16):
        y = model(matrix())
    return gradients(model, y.float().sum()), y.dtype


@kind
def inference():
    model = layers()
    with torch.inference_mode():
        y = model(matrix())
        y += 1
        last = model(torch.cat([y, y], 1))
    return y.is_inference(), y.clone(), last, (y.clone() * model[2].weight.sum()).sum()  # raises


@kind
def forward_mode():
    x, tangent = matrix(), matrix()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        return forward_ad.unpack_dual((dual.exp() @ dual).tanh())


@kind
def hooks():
    model, log = layers(), []
    model[0].register_forward_hook(lambda module, args, out: log.append("forward"))
    model[0].register_full_backward_hook(lambda module, *args: log.append("backward"))
    model[2].weight.register_hook(lambda grad: log.append("tensor") or grad * 2)
    model[2].weight.register_post_accumulate_grad_hook(lambda p: log.append("accumulated"))
    x = matrix().requires_grad_()
    y = model(x)
    y.grad_fn.register_hook(lambda *args: log.append("node"))
    y.retain_grad()
    return gradients(model, y.sum()), log, y.grad, len(model[2].weight._backward_hooks)


@kind
def optimizer_in_backward():
    model = layers()
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)

        def step(parameter, optimizer=optimizer):
            optimizer.step()
            parameter.grad = None

        parameter.register_post_accumulate_grad_hook(step)
    model(matrix()).sum().backward()
    return list(model.parameters())


@kind
def anomaly_mode():
    x = leaf()
    with torch.autograd.detect_anomaly(check_nan=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x.detach() * 0 + (x * 0).sqrt() * 0).sum().backward()  # raises: nan


@kind
def deterministic_mode():
    torch.use_deterministic_algorithms(True)
    try:
        return torch.zeros(4).index_add_(0, torch.tensor([0, 0, 1]), torch.ones(3)), str(torch.empty(3))
    finally:
        torch.use_deterministic_algorithms(False)


@kind
def gradients_toggled():
    model = layers().requires_grad_(False)
    model[2].requires_grad_()
    gradients(model, model(matrix()).sum())
    with torch.no_grad():
        x = model(matrix())
    with torch.set_grad_enabled(False), torch.enable_grad():
        y = model(matrix())
    return [p.grad for p in model.parameters()], x.requires_grad, y.requires_grad


# ---- Compilers and operators ----


@kind
def compiled():
    model = layers()
    results = []
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        run = torch.compile(model, backend=backend, fullgraph=True)
        results.append(gradients(model, run(torch.ones(2, 4)).sum()))
        model.zero_grad()
    compiled_frames = torch._dynamo.utils.counters["frames"]["ok"]
    torch._dynamo.utils.counters.clear()
    return results, compiled_frames


@kind
def conditions():
    def choose(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    return choose(torch.ones(3)), choose(-torch.ones(3))


@kind
def loops():
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    start = torch.tensor(0), torch.ones(3)
    looped = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), start)
    return looped, scan(lambda a, b: (a + b, a * b), torch.zeros(3), torch.arange(6.0).view(2, 3))


@kind
def associative_scan():
    from torch._higher_order_ops.associative_scan import associative_scan

    x = torch.arange(6.0).view(3, 2)
    return associative_scan(torch.add, x, 0, combine_mode="generic")


@kind
def flex_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q = torch.randn(1, 2, 16, 8)
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return flex_attention(q, q, q), flex_attention(q, q, q, block_mask=mask)


@kind
def attention():
    q = torch.randn(1, 2, 8, 4, requires_grad=True)
    y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    y.sum().backward()
    return y, q.grad, nn.MultiheadAttention(4, 2)(*[q[0].detach()] * 3)


@kind
def custom_operator():
    @torch.library.custom_op("kinds::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy() * factor)

    @scaled.register_fake
    def _(x, factor):
        return torch.empty_like(x)

    def save(ctx, inputs, output):
        ctx.factor = inputs[1]
        ctx.save_for_backward(inputs[0])

    scaled.register_autograd(lambda ctx, g: (g * ctx.factor, None), setup_context=save)
    x = leaf()
    y = scaled(x, 2.0)
    y.sum().backward()
    return y, x.grad


@kind
def library_operator():
    with torch.library._scoped_library("kinds2", "FRAGMENT") as library:
        library.define("plus(Tensor x, Tensor[] others) -> (Tensor, Tensor[])")
        library.impl("plus", lambda x, others: (x + 1, [o + x for o in others]), "CPU")
        return torch.ops.kinds2.plus(torch.ones(2), [torch.ones(2), torch.zeros(2)])


@kind
def traced_by_fx():
    graph = make_fx(lambda x: (x @ x).relu().sum())(matrix())
    fake = make_fx(torch.exp, tracing_mode="fake")(matrix())
    return graph(torch.ones(3, 3)), [str(node.target) for node in graph.graph.nodes], fake(
        torch.ones(2)
    )


@kind
def symbolic_trace():
    return torch.fx.symbolic_trace(layers())(torch.ones(4))


@kind
def exported():
    program = torch.export.export(layers(), (torch.ones(2, 4),))
    return program.module()(torch.ones(2, 4)), len(program.graph.nodes)


@kind
def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.script(layers())
        traced = torch.jit.trace(layers(), torch.ones(2, 4))
        x = torch.ones(2, 4)
        for _ in range(3):  # the first calls are not optimized
            results = [gradients(m, m(x).sum()) for m in (model, traced)]
            model.zero_grad(), traced.zero_grad()
        file = io.BytesIO()
        torch.jit.save(model, file)
        file.seek(0)
        return results, torch.jit.load(file)(torch.ones(2, 4))


@kind
def profiled():
    from torch.profiler import profile

    x = leaf()
    with profile(profile_memory=True, with_stack=False) as profiler:
        (x @ x).sum().backward()
    names = {event.key for event in profiler.key_averages()}
    return x.grad, "aten::mm" in names


# ---- Modules, optimizers, files, threads ----


@kind
def random_numbers():
    torch.manual_seed(3)
    own = torch.Generator().manual_seed(5)
    with torch.random.fork_rng():
        inner = torch.rand(3)
    state = torch.get_rng_state()
    results = inner, torch.rand(3), torch.randn(3, generator=own), torch.randperm(9)
    torch.set_rng_state(state)
    again = F.dropout(torch.ones(9)), nn.init.orthogonal_(torch.empty(3, 3))
    return results, again, torch.bernoulli(torch.full((9,), 0.5)), torch.get_rng_state()


@kind
def parametrized():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    first = gradients(layer, layer(matrix()).sum())
    spectral = parametrizations.spectral_norm(nn.Linear(4, 4))
    normed = parametrizations.weight_norm(nn.Linear(4, 4))
    orthogonal = parametrizations.orthogonal(nn.Linear(4, 4))
    return first, [gradients(m, m(matrix()).sum()) for m in (spectral, normed, orthogonal)]


@kind
def old_norms():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = nn.utils.weight_norm(nn.utils.spectral_norm(nn.Linear(4, 4)), "bias")
    return gradients(layer, layer(matrix()).sum())


@kind
def optimizers():
    results = []
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "NAdam", "Muon", "Adafactor"):
        if not hasattr(torch.optim, name):
            continue
        model = nn.Linear(4, 4, bias=False)
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            gradients(model, model(matrix()).square().sum())
            optimizer.step()
        results.append(model.weight)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return results


@kind
def lbfgs():
    model = layers()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")
    x = matrix()

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    return optimizer.step(closure), list(model.parameters())


@kind
def averaged_and_scaled():
    from torch.optim.swa_utils import AveragedModel

    model = layers()
    average = AveragedModel(model)
    scaler = torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(model(matrix()).sum()).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    scaler.step(optimizer)
    scaler.update()
    average.update_parameters(model)
    return norm, list(average.parameters()), scaler.get_scale()


@kind
def lazy_modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    return gradients(model, model(matrix()).square().sum()), list(model.buffers())


@kind
def modules_moved():
    model = layers()
    before = model[0].weight
    moved = model.to(torch.float64)
    again = copy.deepcopy(moved).half().float()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.float()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    return before is model[0].weight, list(again.parameters()), model[0].weight


@kind
def recurrent():
    cell = nn.LSTM(4, 3, num_layers=2, dropout=0.5)
    y, state = cell(torch.randn(5, 2, 4))
    packed = nn.utils.rnn.pack_sequence([torch.randn(3, 4), torch.randn(2, 4)])
    return gradients(cell, y.sum()), state, cell(packed)[0].data


@kind
def copies_and_pickles():
    model = layers()
    gradients(model, model(matrix()).sum())
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda x: None)
    copied, other = copy.deepcopy((model, matrix())), pickle.loads(pickle.dumps(matrix()))
    loaded = pickle.loads(pickle.dumps(model))
    return list(copied[0].parameters()), other, loaded[0].weight, copy.copy(matrix()), sorted(
        vars(copy.deepcopy(model[0].weight))
    )


@kind
def saved_files():
    model = layers()
    with tempfile.NamedTemporaryFile() as file:
        torch.save({"model": model.state_dict(), "x": matrix().to_sparse()}, file.name)
        loaded = torch.load(file.name, weights_only=True)
        torch.save(model.state_dict(), file.name)
        mapped = torch.load(file.name, mmap=True)
        other = layers()
        other.load_state_dict(mapped, assign=True)
        return loaded["model"], loaded["x"].to_dense(), other(torch.ones(4))


@kind
def weak_references():
    x, died = matrix(), []
    weakref.finalize(x, died.append, "x")
    reference, storage = weakref.ref(x), weakref.ref(x.untyped_storage())
    alive = reference() is x
    del x
    kept = weakref.ref(leaf() * 2)
    return alive, died, storage() is None, kept() is None


@kind
def attributes():
    x = matrix()
    x.tag = {"own": x.shape}
    y = x.view(16)
    model = nn.Linear(2, 2)
    model.weight.tag = "weight"
    return x.tag, hasattr(y, "tag"), model.weight.tag, sorted(vars(model.weight)), sorted(vars(x))


@kind
def garbage():
    class Node:
        pass

    node = Node()
    node.self, node.tensor = node, leaf().exp()
    reference = weakref.ref(node.tensor)
    del node
    gc.collect()
    objects = [one for one in gc.get_objects() if type(one) is torch.Tensor]
    return reference() is None, len(objects) > 0


@kind
def loader_workers():
    data = TensorDataset(torch.arange(8.0).view(4, 2))
    return [batch[0] * 2 for batch in DataLoader(data, 2, num_workers=2)]


@kind
def threads():
    results = [None] * 3

    def work(place):
        model = nn.Linear(3, 3)
        nn.init.ones_(model.weight)
        results[place] = gradients(model, model(torch.full((2, 3), float(place))).sum())[0]

    crew = [threading.Thread(target=work, args=(place,)) for place in range(3)]
    for each in crew:
        each.start()
    for each in crew:
        each.join()
    return results


@kind
def futures():
    forked = torch.jit.fork(torch.add, torch.ones(3), 2)
    future = torch.futures.Future()
    future.set_result(matrix())
    return torch.jit.wait(forked), future.then(lambda f: f.value() + 1).wait()


@kind
def printing():
    x = leaf() * 2
    return str(x), repr(x.detach().to_sparse()), f"{x.sum().item():.3f}", x.tolist()


@kind
def many_outputs():
    x = matrix()
    values, places = x.topk(2)
    return x.split(2), x.unique(return_counts=True), values, places, torch.linalg.svd(x @ x.T)[1]


@kind
def foreach():
    tensors = [matrix(), matrix()]
    torch._foreach_mul_(tensors, 2.0)
    return tensors, torch._foreach_norm(tensors), torch._foreach_add(tensors, tensors)


@kind
def generator_left():
    def steps():
        with torch.no_grad():
            yield matrix()
            yield matrix().exp()

    return list(steps()), torch.is_grad_enabled()


# ---- Blocks inside something else ----


def without_detach(seen):
    """Autograd detaches what hooks unpack, so modes see that more often than without hooks."""
    return [name for name in seen if "detach" not in name]


@kind
def dispatch_mode_outside(block):
    model = layers()
    with Operators() as mode, block():
        grads = gradients(model, model(matrix()).exp().sum())
        first = Traceable(matrix()) * 2
    return grads, first.inner, without_detach(mode.seen)


@kind
def function_mode_outside(block):
    x = leaf()
    with Functions() as mode, block():
        x.exp().mul(x).sum().backward()
    return x.grad, mode.seen


@kind
def flop_counter_outside(block):
    from torch.utils.flop_counter import FlopCounterMode

    model = layers()
    with FlopCounterMode(display=False) as counter, block():
        gradients(model, model(matrix()).sum())
    return counter.get_total_flops()


@kind
def hooks_outside(block):
    log, x = [], leaf()
    with saved_tensors_hooks(lambda x: log.append(list(x.shape)) or x.numpy(), torch.from_numpy):
        with block(), torch.no_grad():
            pass
        y = x.detach().requires_grad_()
        with block():
            z = (y[0] * 2).sum()
    with save_on_cpu(), block():
        w = x.exp().sum()
    (z + w).backward()
    return y.grad, x.grad, log


@kind
def func_outside(block):
    def loss(x):
        with block():
            return (x * x).exp().sum()

    x = torch.randn(4, 3)
    return grad(loss)(x), vmap(grad(loss))(x), jvp(loss, (x,), (x,))


@kind
def fake_tensors_outside(block):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), block():
        x = torch.empty(1 << 20, 1 << 20, requires_grad=True)
        (x @ x).sum().backward()
    return list(x.grad.shape)


@kind
def inference_outside(block):
    with torch.inference_mode(), block():
        return layers()(matrix()).is_inference()


@kind
def left_in_another_order(block):
    x, log = leaf(), []
    mode, hooks = Operators(), saved_tensors_hooks(lambda x: log.append(1) or x, lambda x: x)
    with contextlib.ExitStack() as rest:
        outer = block()
        outer.__enter__()
        rest.enter_context(mode)
        rest.enter_context(hooks)
        y = x.exp()
        outer.__exit__(None, None, None)
        z = y.exp()
    z.exp().sum().backward()
    return x.grad, len(log), without_detach(mode.seen), torch._C._len_torch_dispatch_stack()


@kind
def block_of_a_generator(block):
    def steps():
        with block():
            yield leaf().exp()
            yield leaf().exp()

    for y in (made := steps()):
        break
    with Operators() as mode:
        made.close()
        z = y.sum()
    return z, mode.seen


@kind
def backward_outside(block):
    x, weight, extra = leaf(), nn.Parameter(torch.randn(4)), leaf() * 1
    weight.main_grad, extra.factor = torch.zeros(4), 3
    before = x.tanh().sum()
    with block():
        y = Scale.apply(x, weight, extra)[0].exp().sum()
        before.backward()
    y.backward()
    return x.grad, weight.main_grad


@kind
def block_inside_a_hook(block):
    x, log = leaf(), []

    def hook(gradient):
        with block():
            log.append(gradient.exp().sum())
            return gradient * 2

    (y := x * 2).register_hook(hook)
    x.register_post_accumulate_grad_hook(lambda x: block().__enter__() or log.append(x.grad.sum()))
    y.exp().sum().backward()
    return x.grad, log


@kind
def block_inside_a_checkpoint(block):
    model = layers()

    def run(x):
        with block():
            return model(x)

    x = matrix().requires_grad_()
    both = [checkpoint(run, x, use_reentrant=way) for way in (True, False)]
    return gradients(model, (both[0] * both[1]).sum()), x.grad


@kind
def block_inside_compiled_code(block):
    def run(x):
        y = x.sin()
        with block():
            y = y.cos()
        return y + 1

    torch._dynamo.reset()
    return torch.compile(run, backend="eager")(torch.ones(3))


@kind
def block_of_another_thread(block):
    results = []

    def work():
        with block():
            x = torch.ones(3, requires_grad=True)
            x.exp().sum().backward()
            results.append(x.grad)

    with block():
        other = threading.Thread(target=work)
        other.start()
        other.join()
        results.append(leaf().exp())
    return results


@kind
def alarm(block):
    def stop(number, frame):
        raise TimeoutError("too late")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        x = torch.ones(2)
        with block():
            while True:  # raises
                x = x + 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
