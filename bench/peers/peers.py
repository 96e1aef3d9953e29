"""Inlay beside whatever peers are installed, in one run, by turns: figures to a JSON file.

    python3 bench/peers/peers.py -o docs/performance.json --llama-bench PATH --ik-llama-bench PATH

What is compared, every turn one after the other in the same minutes, two threads, at a real-time priority where that is
allowed (chrt -f 10); a figure is the median of the turns:

    whole models   prefill of 512 tokens, decode at each of --depths: `inlay bench model` beside llama-bench of llama.cpp and
                   of ik_llama.cpp, on the same GGUF file: of a published shape, with random matrices of each of --types
                   (made here), and each of --files, which OpenVINO GenAI takes too (open_vino.py); ONNX Runtime GenAI on
                   those for which --genai-folders names one (ort_genai.py)
    many texts     8 and 32 that are decoded together behind 128 tokens each, beside llama-batched-bench
    linears        `bench_linear*` beside ONNX Runtime (MatMul, MatMulInteger, MatMulNBits) and oneDNN (onednn.cpp)

--builds adds whole models by other programs of ours. One of them should be a copy of the program itself: two copies differ
by up to a tenth on a machine that is shared, and what is less than their difference was not measured.

Python with numpy and gguf, and for the peers that shall take part onnxruntime and onnx (of PyPI), Debian's libdnnl-dev, and
a Python with openvino-genai and onnxruntime-genai.
A peer that is not there is left out, and the file says so. bench/peers/table.py makes the README's table and picture of it.
"""
import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PREFILL, DECODE = 512, 32
TEXTS, TEXT_PROMPT, TEXT_TOKENS = (8, 32), 128, 64
SHAPES = {  # layers, dim, heads, kv heads, hidden, vocabulary, biases of q k v: tools/model_shapes.cpp
    "qwen2.5-0.5b": (24, 896, 14, 2, 4864, 151936, True),
    "llama3.2-1b": (16, 2048, 32, 8, 8192, 128256, False),
}
BLOCKS = {  # of a quantized type: elements, bytes, and where f16 scales stand
    "Q4_0": (32, 18, [0]), "Q5_0": (32, 22, [0]), "Q8_0": (32, 34, [0]), "Q4_K": (256, 144, [0, 2]), "Q6_K": (256, 210, [208]),
    "IQ4_NL": (32, 18, [0]), "IQ4_XS": (256, 136, [0]),
}
TYPES = ("Q4_0", "Q8_0", "BF16", "Q4_K_M", "Q5_0", "Q6_K", "IQ4_NL", "IQ4_XS")
LINEARS = {  # name: our bench, its filter
    "w4a16, int8 activations, 512 rows": ("linear_w4a16", "q4_0_int8/512x4096x4096"),
    "w4a16, 512 rows": ("linear_w4a16", "q4_0/512x4096x4096"),
    "w4a16, int8 activations, 1 row": ("linear_w4a16", "q4_0_int8/1x4096x14336"),
    "w4a16, 1 row": ("linear_w4a16", "q4_0/1x4096x14336"),
    "int8, 512 rows": ("linear_int8", "f32/llama-8b/qo/512x"),
    "f32, 512 rows": ("linear", "f32_f32/llama-8b/o/512/"),
    "bf16, 512 rows": ("linear", "bf16_bf16/llama-8b/o/512/"),
}


def run(*command, **environment):
    prefix = ["chrt", "-f", "10"] if shutil.which("chrt") and not subprocess.run(
        ["chrt", "-f", "10", "true"], capture_output=True).returncode else []
    return subprocess.run([*prefix, *map(str, command)], check=True, text=True, capture_output=True,
                          env={**os.environ, "OMP_NUM_THREADS": "2", **environment}).stdout


def type_of(label, layer, layers, kind, columns):
    """What a file of that kind has for a matrix: Q4_K_M mixes as llama-quantize does, and where rows are no whole blocks."""
    if kind != "Q4_K_M":
        return kind
    more_bits = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
    six = label.startswith("token_embd") or (more_bits and ("attn_v" in label or "ffn_down" in label))
    if columns % 256:
        return "Q8_0" if six else "Q5_0"
    return "Q6_K" if six else "Q4_K"


def model_file(name, kind, folder):
    """A GGUF file of that shape with random matrices of that kind: codes do not change the time."""
    path = folder / f"{name}-{kind.lower()}.gguf"
    if path.exists():
        return path
    import gguf
    import numpy
    random = numpy.random.default_rng(1)
    layers, dim, heads, kv_heads, hidden, vocab, biased = SHAPES[name]
    head = dim // heads
    temporary = path.with_suffix(".tmp")
    writer = gguf.GGUFWriter(temporary, "qwen2" if biased else "llama")
    writer.add_context_length(32768)
    writer.add_embedding_length(dim)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(1e6 if biased else 5e5)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(getattr(gguf.LlamaFileType, "MOSTLY_" + kind))

    def matrix(label, rows, columns, layer=0):
        tensor_type = type_of(label, layer, layers, kind, columns)
        if tensor_type == "BF16":
            values = random.standard_normal((rows, columns), numpy.float32) * numpy.float32(0.02)
            raw = (values.view(numpy.uint32) >> 16).astype(numpy.uint16).view(numpy.uint8)
        else:
            elements, size, scales = BLOCKS[tensor_type]
            raw = random.integers(0, 256, (rows, columns // elements, size), numpy.uint8)
            for at in scales:
                scale = numpy.float16(0.01 if elements == 32 else 0.0002)
                raw[:, :, at:at + 2] = numpy.frombuffer(scale.tobytes(), numpy.uint8)
        writer.add_tensor(label, raw.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType[tensor_type])

    def vector(label, size, value):
        writer.add_tensor(label, numpy.full(size, value, numpy.float32))

    matrix("token_embd.weight", vocab, dim)
    vector("output_norm.weight", dim, 1)
    for i in range(layers):
        at = f"blk.{i}."
        vector(at + "attn_norm.weight", dim, 1)
        vector(at + "ffn_norm.weight", dim, 1)
        for label, rows in (("q", heads * head), ("k", kv_heads * head), ("v", kv_heads * head)):
            matrix(at + f"attn_{label}.weight", rows, dim, i)
            if biased:
                vector(at + f"attn_{label}.bias", rows, 0)
        matrix(at + "attn_output.weight", dim, heads * head, i)
        matrix(at + "ffn_gate.weight", hidden, dim, i)
        matrix(at + "ffn_up.weight", hidden, dim, i)
        matrix(at + "ffn_down.weight", dim, hidden, i)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    temporary.rename(path)
    return path


def inlay_model(inlay, path, depths):
    """Tokens a second, and of what reading allows the share, where nobody disturbed it."""
    # As the peers: 8 bits beside codes, and beside bf16 what the processor multiplies.
    activations = "int8"
    if path.stem.endswith("-bf16"):
        activations = "bf16" if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text() else "exact"
    text = run(inlay, "bench", "model", path, "--activations", activations, "--threads", 2,
               "--prefill", PREFILL, "--depth", *depths, "--tokens", DECODE)
    rates, shares = {}, {}
    for kind, what, rate, share in re.findall(
            r"^(prefill|decode at depth) +(\d+) .*?([\d.]+) tok/s(?:.*?([\d.]+)% of)?", text, re.M):
        work = "prefill" if kind == "prefill" else f"decode at {what}"
        rates[work] = float(rate)
        if share and kind != "prefill":
            shares[work] = float(share)
    return rates, shares


def llama_model(bench, path, depths):
    has = subprocess.run([bench, "--help"], text=True, capture_output=True).stdout
    repacked = ["-rtr", 1] if "-rtr" in has else []  # ik_llama.cpp's fastest form; llama.cpp does it unasked

    def rates(*options):
        rows = json.loads(run(bench, "-m", path, "-t", 2, "-r", 1, "-fa", 1, "-o", "json", *repacked, *options))
        return [row["avg_ts"] for row in rows]
    result = {"prefill": rates("-p", PREFILL, "-n", 0)[0]}
    for depth in depths:
        if not depth or "--n-depth" in has:
            behind = ["-d", depth] if depth else []
            result[f"decode at {depth}"] = rates("-p", 0, "-n", DECODE, *behind)[0]
        else:  # ik_llama.cpp
            result[f"decode at {depth}"] = rates("-p", 0, "-n", 0, "-gp", f"{depth},{DECODE}")[-1]
    return result


def python_model(python, script, path, depths):
    text = run(python, HERE / script, path, PREFILL, DECODE, *depths)
    return {work: float(rate) for work, rate in re.findall(r"^(.*): ([\d.]+) tok/s$", text, re.M)}


def inlay_texts(inlay, path):
    text = run(inlay, "bench", "model", path, "--activations", "int8", "--threads", 2,
               "--prefill", 1, "--depth", TEXT_PROMPT, "--batch", *TEXTS, "--tokens", TEXT_TOKENS)
    return {f"decode of {count}": float(rate)
            for count, rate in re.findall(r"^decode of +(\d+) texts .*?([\d.]+) tok/s", text, re.M)}


def llama_texts(bench, path):
    context = max(TEXTS) * (TEXT_PROMPT + TEXT_TOKENS)
    text = run(bench, "-m", path, "-t", 2, "-fa", "on", "-c", context, "-npp", TEXT_PROMPT, "-ntg", TEXT_TOKENS,
               "-npl", ",".join(map(str, TEXTS)), "--output-format", "jsonl")
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {f"decode of {row['pl']}": row["speed_tg"] for row in rows}


def inlay_linear(folder, bench, wanted):
    text = run(folder / f"bench_{bench}", f"--benchmark_filter={wanted}")
    row = re.search(re.escape(wanted) + r"\S* +([\d.]+) us", text)
    return float(row.group(1)) / 1e3 if row else None  # none of bf16 products where the machine has no instruction


def onnx_linears():
    """Milliseconds by name (bench/peers/onnx_runtime.py, which prints them for both shapes)."""
    text = run(sys.executable, ROOT / "bench/peers/onnx_runtime.py")
    names = {"512 x 4096 x 4096, f32": "f32, 512 rows", "512 x 4096 x 4096, int8 (x is u8)": "int8, 512 rows",
             "512 x 4096 x 4096, 4 bits, accuracy level 4": "w4a16, int8 activations, 512 rows",
             "512 x 4096 x 4096, 4 bits, accuracy level 0": "w4a16, 512 rows",
             "1 x 4096 x 14336, 4 bits, accuracy level 4": "w4a16, int8 activations, 1 row",
             "1 x 4096 x 14336, 4 bits, accuracy level 0": "w4a16, 1 row"}
    found = dict(re.findall(r"^(.*): ([\d.]+) ms$", text, re.M))
    return {ours: float(found[theirs]) for theirs, ours in names.items() if theirs in found}


def onednn_program(folder):
    """bench/peers/onednn.cpp against Debian's libdnnl-dev, or None."""
    program = folder / "onednn"
    built = subprocess.run(["g++", "-std=c++20", "-O2", HERE / "onednn.cpp", "-o", program, "-ldnnl"], capture_output=True)
    return program if built.returncode == 0 else None


def onednn_linears(program):
    return {name: float(ms) for name, ms in re.findall(r"^(.*): ([\d.]+) ms$", run(program), re.M)}


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def llama_version(bench):
    """llama-bench says its commit and build with each row."""
    return lambda path: (lambda row: f"{row['build_number']} ({row['build_commit']})")(
        json.loads(run(bench, "-m", path, "-t", 2, "-r", 1, "-p", 1, "-n", 0, "-o", "json"))[0])


def print_medians(figures):
    """And how many times as fast as each other Inlay was."""
    for work, measured in figures.items():
        print(f"{work}: {table.median(measured, 'Inlay'):.4g} {measured['unit']}" + "".join(
            f"; {peer} {table.median(measured, peer):.4g}, {table.ratio(measured, peer):.2f}x"
            for peer in measured["peers"] if peer != "Inlay"))


def name_and_path(text):
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=PATH")
    return name, path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path, help="our build, with benches and tools")
    parser.add_argument("--llama-bench", help="of llama.cpp")
    parser.add_argument("--ik-llama-bench", help="of ik_llama.cpp")
    parser.add_argument("--llama-batched-bench", help="of llama.cpp")
    parser.add_argument("--openvino", help="a Python that has openvino-genai")
    parser.add_argument("--genai", help="a Python that has onnxruntime-genai")
    parser.add_argument("--genai-folders", nargs="*", default=[], type=name_and_path, metavar="NAME=FOLDER",
                        help="what ONNX Runtime GenAI is to run beside a file's name")
    parser.add_argument("--builds", nargs="*", default=[], type=name_and_path, metavar="NAME=PROGRAM",
                        help="more programs of ours, `copy=build/release/tools/inlay before=..`")
    parser.add_argument("--turns", default=5, type=int)
    parser.add_argument("--depths", nargs="*", default=[0, 4096], type=int, help="tokens before those that are decoded")
    parser.add_argument("--types", nargs="*", default=["Q4_0"], choices=TYPES, help="of the random files' matrices")
    parser.add_argument("--models", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--files", nargs="*", default=[], type=pathlib.Path,
                        help="GGUF files of real models (scripts/fetch_model.sh)")
    options = parser.parse_args()
    if options.genai_folders and not options.genai:
        parser.error("--genai-folders: --genai must say which Python has onnxruntime-genai")

    folder = ROOT / "build/peers"
    folder.mkdir(parents=True, exist_ok=True)
    inlay = options.build / "tools/inlay"
    llamas = {name: path for name, path in (("llama.cpp", options.llama_bench), ("ik_llama.cpp", options.ik_llama_bench))
              if path}
    batched = options.llama_batched_bench
    files = {f"{name} {kind}": model_file(name, kind, folder) for kind in options.types for name in options.models}
    files |= {path.stem: path for path in options.files}
    together = [f"{name} Q4_0" for name in options.models] if batched and "Q4_0" in options.types else []
    cpu = re.search(r"model name\s*: (.*)|$", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    family = re.search(r"cpu family\s*: (\d+)|$", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True, capture_output=True).stdout.strip()
    versions = {"Inlay": commit}
    for name, bench in llamas.items():
        versions[name] = llama_version(bench)(next(iter(files.values())))
    if batched and "llama.cpp" not in versions:
        said = subprocess.run([batched, "--version"], text=True, capture_output=True)
        versions["llama.cpp"] = re.search(r"version: (.*)|$", said.stdout + said.stderr).group(1) or "of unknown version"
    onnx = version_of("onnxruntime") and version_of("onnx")
    if onnx:
        versions["ONNX Runtime"] = version_of("onnxruntime")
    onednn = onednn_program(folder)
    if onednn:
        versions["oneDNN"] = run(onednn, "--version").strip()

    if options.openvino:
        versions["OpenVINO GenAI"] = run(options.openvino, HERE / "open_vino.py", "--version").strip()
    genai = dict(options.genai_folders)
    for name in genai.keys() - files.keys():
        parser.error(f"--genai-folders: {name!r} is none of {', '.join(files)}")
    if genai:
        versions["ONNX Runtime GenAI"] = run(options.genai, HERE / "ort_genai.py", "--version").strip()

    figures = {}  # work -> its unit, and peer -> a figure a turn

    def note(work, unit, peer, value):
        figures.setdefault(work, {"unit": unit, "peers": {}})["peers"].setdefault(peer, []).append(value)
        print(f"{work:60} {peer:14} {value:10.2f}", flush=True)

    def note_rates(name, peer, rates):
        for kind, rate in rates.items():
            note(f"{name}, {kind}", "tok/s", peer, rate)

    for turn in range(options.turns):
        for name, path in files.items():
            rates, shares = inlay_model(inlay, path, options.depths)
            note_rates(name, "Inlay", rates)
            for kind, share in shares.items():
                figures[f"{name}, {kind}"].setdefault("% of reading", []).append(share)
            for build, program in options.builds:
                note_rates(name, f"Inlay, {build}", inlay_model(program, path, options.depths)[0])
            for peer, bench in llamas.items():
                note_rates(name, peer, llama_model(bench, path, options.depths))
            if options.openvino and path in options.files:  # it wants a vocabulary
                note_rates(name, "OpenVINO GenAI", python_model(options.openvino, "open_vino.py", path, options.depths))
            if name in genai:
                note_rates(name, "ONNX Runtime GenAI", python_model(options.genai, "ort_genai.py", genai[name], options.depths))
        for name in together:
            note_rates(name, "Inlay", inlay_texts(inlay, files[name]))
            note_rates(name, "llama.cpp", llama_texts(batched, files[name]))
        theirs = {"ONNX Runtime": onnx_linears() if onnx else {}, "oneDNN": onednn_linears(onednn) if onednn else {}}
        for name, (bench, wanted) in LINEARS.items():
            ms = inlay_linear(options.build / "bench", bench, wanted)
            if ms is None:
                continue
            note(name, "ms", "Inlay", ms)
            for peer, times in theirs.items():
                if name in times:
                    note(name, "ms", peer, times[name])

    print_medians(figures)
    missing = [peer for peer in table.PEERS if peer not in versions]
    result = {"date": datetime.date.today().isoformat(), "cpu": f"{cpu}, family {family}", "threads": 2, "turns": options.turns,
              "command": "python3 bench/peers/peers.py " + " ".join(
                  re.sub(r"/\S*/", "", word) if "/" in word and "=" not in word else word for word in sys.argv[1:]),
              "load": pathlib.Path("/proc/loadavg").read_text().split()[0], "versions": versions, "not installed": missing,
              "figures": figures}
    temporary = options.output.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=1) + "\n")
    temporary.rename(options.output)


if __name__ == "__main__":
    main()
