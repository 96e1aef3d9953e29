"""The README's table of figures, docs/performance.md's and their picture, from what peers.py measured.

    python3 bench/peers/table.py            writes them
    python3 bench/peers/table.py --check    exits with 1 where one is not what docs/performance.json gives (a test)
"""
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MEASURED = ROOT / "docs/performance.json"
PICTURE = ROOT / "docs/performance.svg"
BEGIN, END = "<!-- figures: bench/peers/table.py -->\n", "<!-- end of figures -->"
PEERS = ["llama.cpp", "ik_llama.cpp", "OpenVINO GenAI", "ONNX Runtime GenAI", "oneDNN", "ONNX Runtime"]
# What the README shows of it, in these words.
ROWS = {
    "llama3.2-1b Q4_0, prefill": "llama3.2-1b, 4 bits, prefill of 512",
    "llama3.2-1b Q4_0, decode at 4096": "llama3.2-1b, 4 bits, decode behind 4096 tokens",
    "qwen2.5-0.5b Q4_0, prefill": "qwen2.5-0.5b, 4 bits, prefill of 512",
    "qwen2.5-0.5b Q4_0, decode at 0": "qwen2.5-0.5b, 4 bits, decode at depth 0",
    "w4a16, int8 activations, 512 rows": "4-bit linear, 512 x 4096 x 4096, int8 activations",
    "int8, 512 rows": "int8 linear, 512 x 4096 x 4096",
}


def words_of(work):
    """`NAME, decode at 4096` as a row says it."""
    name, _, kind = work.rpartition(", ")
    if kind == "prefill":
        return f"{name}, prefill of 512"
    if match := re.fullmatch(r"decode at (\d+)", kind):
        return f"{name}, decode " + (f"behind {match[1]} tokens" if int(match[1]) else "at depth 0")
    if match := re.fullmatch(r"decode of (\d+)", kind):
        return f"{name}, decode of {match[1]} texts together"
    return work


def median(figures, peer):
    return statistics.median(figures["peers"][peer])


def ratio(figures, peer):
    """How many times as fast as the peer Inlay is."""
    ours, theirs = median(figures, "Inlay"), median(figures, peer)
    return ours / theirs if figures["unit"] == "tok/s" else theirs / ours


def shown(value, unit):
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}" if value >= 10 else f"{value:.2f} {unit}"


def peers_of(figures):
    return [peer for peer in PEERS if peer in figures["peers"]]


def cell(figures, peer):
    if peer not in figures["peers"]:
        return "-"
    times = f"{ratio(figures, peer):.2f}x"
    return f"{shown(median(figures, peer), figures['unit'])}, " + (times if ratio(figures, peer) >= 1 else f"**{times}**")


def own_cell(figures):
    shares = figures.get("% of reading")
    return shown(median(figures, "Inlay"), figures["unit"]) + (f", {statistics.median(shares):.0f}% of reading" if shares else "")


def table(measured, rows):
    peers = [peer for peer in PEERS if any(peer in measured["figures"][work]["peers"] for work in rows)]
    lines = ["| | Inlay | " + " | ".join(f"{peer} {measured['versions'][peer]}" for peer in peers) + " |",
             "|---" * (2 + len(peers)) + "|"]
    for work, words in rows.items():
        figures = measured["figures"][work]
        lines.append(f"| {words} | {own_cell(figures)} | "
                     + " | ".join(cell(figures, peer) for peer in peers) + " |")
    return "\n".join(lines) + "\n"


def source(measured):
    return (f"Medians of {measured['turns']} turns, one after the other in the same minutes, {measured['threads']} threads: "
            f"{measured['cpu']}, {measured['date']}, Inlay at {measured['versions']['Inlay']}. The ratio is ours to theirs, bold "
            f"where Inlay loses.\n")


def picture(measured):
    """A bar a row: how many times as fast as the best peer, beside a line at 1."""
    rows = [(words, measured["figures"][work]) for work, words in ROWS.items() if work in measured["figures"]]
    left, scale, height, top = 350, 170, 34, 30
    bars = []
    for i, (words, figures) in enumerate(rows):
        best = min(peers_of(figures), key=lambda peer: ratio(figures, peer))
        value, y = ratio(figures, best), top + i * height
        colour = "#2b6cb0" if value >= 1 else "#c05621"
        bars.append(f'<text x="{left - 10}" y="{y + 17}" text-anchor="end">{words}</text>'
                    f'<rect x="{left}" y="{y + 3}" width="{value * scale:.1f}" height="{height - 14}" fill="{colour}"/>'
                    f'<text x="{left + value * scale + 8:.1f}" y="{y + 17}">{value:.2f} x {best}</text>')
    bottom = top + len(rows) * height
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + 2 * scale + 220}" height="{bottom + 10}" '
            f'font-family="sans-serif" font-size="13" fill="#4a5568">\n'
            f'<text x="{left}" y="16">Inlay beside the fastest peer: how many times as fast</text>\n' + "\n".join(bars) +
            f'\n<line x1="{left + scale}" y1="{top - 4}" x2="{left + scale}" y2="{bottom}" stroke="#718096" stroke-dasharray="4 3"/>'
            f"\n</svg>\n")


def between(text, content, where):
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{where} must have the lines of table.py once")
    return text[:text.index(BEGIN) + len(BEGIN)] + content + text[text.index(END):]


def main():
    measured = json.loads(MEASURED.read_text())
    rows = {work: words for work, words in ROWS.items() if work in measured["figures"]}
    all_rows = {work: words_of(work) for work in measured["figures"]}
    wanted = {PICTURE: picture(measured)}
    for page, content in ((ROOT / "README.md", table(measured, rows) + "\n" + source(measured)),
                          (ROOT / "docs/performance.md", table(measured, all_rows) + "\n" + source(measured) +
                           f"Command: `{measured['command']}`\n")):
        wanted[page] = between(page.read_text(), content, page.name)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what docs/performance.json gives: python3 bench/peers/table.py")
        sys.exit(bool(stale))
    for path in stale:
        path.write_text(wanted[path])


if __name__ == "__main__":
    main()
