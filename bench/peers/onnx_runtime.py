"""ONNX Runtime's linears beside ours: medians in milliseconds, two threads, weights from memory.

    python3 bench/peers/onnx_runtime.py                  all lines
    python3 bench/peers/onnx_runtime.py 1 14336 4096     of one row, 14336 outputs and 4096 inputs

Python with onnxruntime, onnx and numpy. Weights are initializers, so that they are packed before the first run; a
product of few rows goes round as many sessions as take 256 MiB, as our benches go round their operands.
"""
import statistics
import sys
import time

import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32  # elements of a row of 4-bit codes that share a scale
random = numpy.random.default_rng(1)


def session(x_type, y_type, x_shape, op, domain, weights, **attributes):
    names = [f"w{i}" for i in range(len(weights))]
    node = helper.make_node(op, ["x", *names], ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], op, [helper.make_tensor_value_info("x", x_type, x_shape)],
                              [helper.make_tensor_value_info("y", y_type, None)],
                              [numpy_helper.from_array(w, name) for w, name in zip(weights, names)])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                  helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def linears(m, n, k):
    """For each form its name, an x, the bytes of its weight and what makes a session."""
    floats, integers = random.random((m, k), numpy.float32), random.integers(0, 255, (m, k), numpy.uint8)
    yield "f32", floats, 4 * n * k, lambda: session(
        TensorProto.FLOAT, TensorProto.FLOAT, (m, k), "MatMul", "", [random.random((k, n), numpy.float32)])
    yield "int8 (x is u8)", integers, n * k, lambda: session(
        TensorProto.UINT8, TensorProto.INT32, (m, k), "MatMulInteger", "",
        [random.integers(-128, 127, (k, n), numpy.int8)])
    for level in (0, 4):
        yield f"4 bits, accuracy level {level}", floats, n * k // 2, lambda: session(
            TensorProto.FLOAT, TensorProto.FLOAT, (m, k), "MatMulNBits", "com.microsoft",
            [random.integers(0, 255, (n, k // BLOCK, BLOCK // 2), numpy.uint8),
             random.random(n * k // BLOCK, numpy.float32)],
            K=k, N=n, bits=4, block_size=BLOCK, accuracy_level=level)


shapes = [tuple(map(int, sys.argv[1:4]))] if len(sys.argv) > 3 else [(1, 14336, 4096), (512, 4096, 4096)]
for m, n, k in shapes:
    for name, x, weight_bytes, make in linears(m, n, k):
        sessions = [make() for _ in range(1 if m > 8 else -(-(256 << 20) // weight_bytes))]
        times = []
        for i in range(20 + len(sessions)):
            begin = time.perf_counter()
            sessions[i % len(sessions)].run(None, {"x": x})
            times.append(time.perf_counter() - begin)
        print(f"{m} x {k} x {n}, {name}: {1e3 * statistics.median(times[len(sessions):]):.2f} ms", flush=True)
