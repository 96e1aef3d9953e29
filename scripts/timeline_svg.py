#!/usr/bin/env python3
"""A picture of a trace that Inlay has written for Perfetto: a track for each device, steps in the colours of their
chunks, and bare paper where a device waits. Linears fill their track, all else a half of it.

  inlay plan MODEL --devices FILE --seq N --trace trace.json
  scripts/timeline_svg.py trace.json [trace2.json ..] -o timeline.svg      one below the other, on one scale of time

The same traces give the same bytes.
"""
import argparse
import json
import re
import sys

COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#777777"]
LEFT, RIGHT, WIDTH, TRACK, GAP = 90, 20, 1000, 26, 12


def read(path):
    """What the trace is of, its tracks' names, and their slices: (track, begin, length, is a linear, chunk)."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    title, tracks, slices = "", {}, []
    for event in events:
        if event.get("name") == "process_name":
            title = event["args"]["name"]
        elif event.get("name") == "thread_name":
            tracks[event["tid"]] = event["args"]["name"]
        elif event.get("ph") == "X":
            chunk = re.search(r"chunk (\d+)", event["name"])
            slices.append((event["tid"], event["ts"], event["dur"], event["name"].startswith("linear"),
                           int(chunk[1]) if chunk else 0))
    if not slices:
        sys.exit(f"{path} has no slices; it must be a trace of inlay plan, or of bench_exec_devices_at_once")
    return title, tracks, slices


def joined(slices):
    """Slices of one colour and height that follow one another are one."""
    row = []
    for begin, end, *look in sorted(slices):
        if row and row[-1][2:] == look and begin - row[-1][1] < 0.1:
            row[-1][1] = end
        else:
            row.append([begin, end, *look])
    return row


def track_path(slices, scale, top):
    """A path for each colour."""
    paths = {}
    for begin, end, linear, chunk in joined([(s[1] * scale, (s[1] + s[2]) * scale, s[3], s[4]) for s in slices]):
        height = TRACK - 4 if linear else TRACK // 2 - 2
        colour = COLOURS[chunk % len(COLOURS)]
        paths.setdefault(colour, []).append(
            f"M{LEFT + begin:.1f} {top + TRACK - 2}v-{height}h{max(end - begin, 0.1):.1f}v{height}z")
    return [f'<path fill="{colour}" d="{"".join(parts)}"/>' for colour, parts in sorted(paths.items())]


def draw(traces):
    span = max(s[1] + s[2] for _, _, slices in traces for s in slices)
    scale, top, body = WIDTH / span, 34, []
    for title, tracks, slices in traces:
        end = max(s[1] + s[2] for s in slices)
        body.append(f'<text x="{LEFT}" y="{top - 10}" font-size="14">{title}: {end / 1000:.2f} ms</text>')
        for track, name in sorted(tracks.items()):
            own = [s for s in slices if s[0] == track]
            waits = 100 * (1 - sum(s[2] for s in own) / end)
            body.append(f'<text x="{LEFT - 8}" y="{top + 12}" text-anchor="end">{name}</text>')
            body.append(f'<text x="{LEFT - 8}" y="{top + 24}" text-anchor="end" font-size="9">waits {waits:.0f}%</text>')
            body.append(f'<path d="M{LEFT} {top + TRACK - 1.5}h{end * scale:.1f}" stroke="#cccccc"/>')
            body += track_path(own, scale, top)
            top += TRACK + GAP
        top += 26
    chunks = sorted({s[4] for _, _, slices in traces for s in slices})
    for i, chunk in enumerate(chunks):
        x = LEFT + 90 * i
        body.append(f'<rect x="{x}" y="{top - 22}" width="12" height="12" fill="{COLOURS[chunk % len(COLOURS)]}"/>'
                    f'<text x="{x + 17}" y="{top - 12}">chunk {chunk}</text>')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {top}" '
                      'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="#ffffff"/>',
                      *body, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(draw([read(path) for path in arguments.traces]))


if __name__ == "__main__":
    main()
