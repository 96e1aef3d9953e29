#!/usr/bin/env python3
"""Replays a trace against a server of OpenAI's completions and prints what `inlay bench serve` prints.

    bench/peers/serve_trace.py --port 8080 --trace FILE          a line of FILE: {"at": 0.25, "prompt": [1, 2, 3], "tokens": 64}
    bench/peers/serve_trace.py --make 48 --rate 8 >FILE          such a trace: arrivals of a Poisson process, drawn lengths

Every server gets the same bytes: token ids, `ignore_eos`, a stream. So peers are measured through one client.
"""
import argparse
import asyncio
import json
import math
import random
import time


def make(requests, rate, seed, vocab):
    draw = random.Random(seed)
    at = 0.0
    for _ in range(requests):
        prompt = [draw.randrange(256, vocab) for _ in range(draw.randint(32, 256))]
        print(json.dumps({"at": round(at, 4), "prompt": prompt, "tokens": draw.randint(32, 96)}))
        at += draw.expovariate(rate)


async def one(port, asked, begin):
    """The times of the first and the last piece, from the trace's begin on."""
    await asyncio.sleep(max(0, begin + asked["at"] - time.monotonic()))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"prompt": asked["prompt"], "max_tokens": asked["tokens"], "ignore_eos": True, "stream": True,
                       "temperature": 0}).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                 b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    head = await reader.readline()
    if b" 200 " not in head:
        raise SystemExit(f"a request was refused: {head.decode()}{(await reader.read()).decode()}")
    first = last = None
    whole = False
    while line := await reader.readline():
        whole = whole or b"[DONE]" in line
        if not line.startswith(b"data: {"):
            continue
        last = time.monotonic() - begin
        if first is None:
            first = last
    writer.close()
    if not whole:
        raise SystemExit("a text did not come to its end")
    return first, last


def quantiles(name, values):
    values = sorted(values)
    at = [values[max(math.ceil(share * len(values)) - 1, 0)] * 1e3 for share in (0.5, 0.9, 0.99)]
    print(f"{name}  p50 {at[0]:9.2f}  p90 {at[1]:9.2f}  p99 {at[2]:9.2f} ms")


async def replay(port, trace):
    begin = time.monotonic()
    times = await asyncio.gather(*(one(port, asked, begin) for asked in trace))
    seconds = time.monotonic() - begin
    written = sum(asked["tokens"] for asked in trace)
    print(f"{len(trace)} requests in {seconds:.2f} s: {sum(len(asked['prompt']) for asked in trace)} tokens of prompts, "
          f"{written} new ones, {written / seconds:.1f} tok/s")
    quantiles("TTFT", [first - asked["at"] for asked, (first, _) in zip(trace, times)])
    quantiles("TPOT", [(last - first) / (asked["tokens"] - 1) for asked, (first, last) in zip(trace, times)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int)
    parser.add_argument("--trace")
    parser.add_argument("--make", type=int, metavar="REQUESTS")
    parser.add_argument("--rate", type=float, default=8, help="requests a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocab", type=int, default=32000)
    options = parser.parse_args()
    if options.make:
        return make(options.make, options.rate, options.seed, options.vocab)
    if not options.port or not options.trace:
        parser.error("--port and --trace are given, or --make is")
    with open(options.trace, encoding="utf-8") as lines:
        asyncio.run(replay(options.port, [json.loads(line) for line in lines]))


if __name__ == "__main__":
    main()
