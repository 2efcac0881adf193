"""A protocol's two graphs, who is asked and who hears whom, as Mermaid, DOT and PNG."""

from __future__ import annotations

import math
from pathlib import Path

import networkx as nx
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

from opentinker.flow import END, Stage, edges_from, stages_of

Points = dict[str, tuple[float, float]]

_INK = "#34495e"
_FILL = {"move": "#d6eaf8", "speak": "#fdebd0", END: "#d5dbdb"}


def mermaid(flow: nx.MultiDiGraph, start: str, audience: nx.DiGraph | None) -> str:
    """A Mermaid flowchart, with the audience as a subgraph beside."""
    stages = stages_of(flow)
    ids = {name: f"s{number}" for number, name in enumerate(stages)} | {END: "stop"}
    lines = ["flowchart TD", f"    begin((start)) --> {ids.get(start, 'unknown')}"]
    for name, stage in stages.items():
        text = "<br/>".join(_mermaid_text(line) for line in _lines(stage))
        lines.append(f'    {ids[name]}["{text}"]')
    arrows = _arrows(flow)
    if any(target == END for _, target in arrows):
        lines.append(f"    {ids[END]}(({END}))")
    for (source, target), label in arrows.items():
        middle = f'-->|"{_mermaid_text(label)}"|' if label else "-->"
        lines.append(f"    {ids[source]} {middle} {ids[target]}")
    if audience is not None:
        seats = {seat: f"a{number}" for number, seat in enumerate(audience.nodes)}
        lines.append("    subgraph audience [who hears whom]")
        lines += [f'        {each}(["{_mermaid_text(seat)}"])' for seat, each in seats.items()]
        lines += [f"        {seats[one]} -.-> {seats[two]}" for one, two in audience.edges]
        lines.append("    end")
    return "\n".join(lines) + "\n"


def dot(flow: nx.MultiDiGraph, start: str, audience: nx.DiGraph | None) -> str:
    """A Graphviz digraph, with the audience as a cluster beside."""
    stages = stages_of(flow)
    lines = ["digraph protocol {", "  node [shape=box, style=rounded];", "  begin [shape=point];"]
    for name, stage in stages.items():
        lines.append(f"  {_quoted(name)} [label={_quoted(chr(10).join(_lines(stage)))}];")
    lines.append(f"  begin -> {_quoted(start)};")
    for (source, target), label in _arrows(flow).items():
        tail = f" [label={_quoted(label)}]" if label else ""
        lines.append(f"  {_quoted(source)} -> {_quoted(target)}{tail};")
    if audience is not None:
        lines += ["  subgraph cluster_audience {", '    label="who hears whom";']
        lines.append("    node [shape=ellipse]; edge [style=dotted];")
        lines += [
            f"    {_quoted('seat ' + seat)} [label={_quoted(seat)}];" for seat in audience.nodes
        ]
        lines += [
            f"    {_quoted('seat ' + one)} -> {_quoted('seat ' + two)};"
            for one, two in audience.edges
        ]
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def png(
    flow: nx.MultiDiGraph, start: str, audience: nx.DiGraph | None, title: str, path: Path
) -> None:
    """An image of the flow, and of the audience on its right when there is one."""
    places = _flow_places(flow, start)
    width = 3.0 + 3.2 * len({x for x, _ in places.values()})
    height = 1.2 + 1.7 * len({y for _, y in places.values()})
    widths = [width] if audience is None else [width, 6.0]
    figure = Figure(figsize=(sum(widths), max(height, 5.0)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    for panel in panels:
        panel.set_axis_off()
    if audience is not None:
        _draw_audience(panels[1], audience)
    panels[0].set_title(title)
    _draw_flow(panels[0], flow, start, places)
    figure.savefig(path, dpi=120, format="png")


def _lines(stage: Stage) -> list[str]:
    notes = [stage.kind]
    if stage.max_visits is not None:
        notes.append(f"at most {stage.max_visits}x")
    if not stage.trainable:
        notes.append("not trained")
    return [stage.name, ", ".join(stage.seats), " · ".join(notes)]


def _arrows(flow: nx.MultiDiGraph) -> dict[tuple[str, str], str]:
    """`(source, target)` to the label of all edges between the two; a default edge has none."""
    labels: dict[tuple[str, str], list[str]] = {}
    for source in stages_of(flow):
        edges = edges_from(flow, source)
        for target, when, _ in edges:
            lone = when is None and len(edges) == 1
            labels.setdefault((source, target), []).extend([] if lone else [when or "else"])
    return {ends: " or ".join(texts) for ends, texts in labels.items()}


def _flow_places(flow: nx.MultiDiGraph, start: str) -> Points:
    """Stages in rows by their distance from the start, one row below the other, END last."""
    depth = dict(nx.single_source_shortest_path_length(flow, start)) if start in flow else {}
    lowest = max(depth.values(), default=0)
    rows: dict[int, list[str]] = {}
    for name in flow.nodes:
        if name != END:
            rows.setdefault(depth.get(name, lowest + 1), []).append(name)
    if END in flow:
        rows[max(rows) + 1] = [END]
    return {
        name: (3.2 * (column - (len(names) - 1) / 2), -1.7 * row)
        for row, names in rows.items()
        for column, name in enumerate(names)
    }


def _draw_flow(axes: Axes, flow: nx.MultiDiGraph, start: str, places: Points) -> None:
    stages = stages_of(flow)
    boxes: dict[str, Text] = {}
    for name, place in places.items():
        stage = stages.get(name)
        words = name if stage is None else "\n".join(_lines(stage))
        fill = _FILL[END] if stage is None else _FILL.get(stage.kind, "white")
        boxes[name] = _draw_box(axes, place, words, fill, 2.6 if name == start else 1.4)
    xs, ys = zip(*places.values(), strict=True)
    axes.set(xlim=(min(xs) - 1.8, max(xs) + 2.2), ylim=(min(ys) - 0.8, max(ys) + 0.8))
    axes.figure.canvas.draw()  # only now do the boxes know how wide they are
    for (source, target), label in _arrows(flow).items():
        (x0, y0), (x1, y1) = places[source], places[target]
        if source == target:
            frame = boxes[source].get_bbox_patch()
            assert frame is not None
            right = frame.get_window_extent().transformed(axes.transData.inverted()).x1
            _draw_arrow(axes, (right, y0 + 0.15), (right, y0 - 0.15), bend=-2.2)
            spot = (right + 0.6, y0)
        else:
            bend = 0.0 if x0 == x1 and 0 < y0 - y1 < 2 else 0.35
            _draw_arrow(axes, (x0, y0), (x1, y1), boxes[source], boxes[target], bend=bend)
            spot = ((x0 + x1 + bend * (y1 - y0)) / 2, (y0 + y1 - bend * (x1 - x0)) / 2)
        if label:
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            axes.text(*spot, label, ha="center", va="center", fontsize=8, bbox=ground, zorder=4)


def _draw_audience(axes: Axes, audience: nx.DiGraph) -> None:
    count = audience.number_of_nodes()
    places = {
        seat: (math.sin(2 * math.pi * number / count), math.cos(2 * math.pi * number / count))
        for number, seat in enumerate(audience.nodes)
    }
    boxes = {seat: _draw_box(axes, places[seat], seat, "#e8f8f5", 1.4) for seat in places}
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.4, 1.4), aspect="equal", title="who hears whom")
    for one, two in audience.edges:
        _draw_arrow(axes, places[one], places[two], boxes[one], boxes[two])


def _draw_box(axes: Axes, place: tuple[float, float], words: str, fill: str, line: float) -> Text:
    box = {"boxstyle": "round,pad=0.5", "edgecolor": _INK, "facecolor": fill, "linewidth": line}
    return axes.text(*place, words, ha="center", va="center", bbox=box, zorder=3)


def _draw_arrow(
    axes: Axes,
    start: tuple[float, float],
    stop: tuple[float, float],
    leaves: Text | None = None,
    enters: Text | None = None,
    bend: float = 0.0,
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            stop,
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=14,
            color=_INK,
            patchA=leaves.get_bbox_patch() if leaves else None,
            patchB=enters.get_bbox_patch() if enters else None,
            shrinkA=2,
            shrinkB=2,
            zorder=2,
        )
    )


def _mermaid_text(text: str) -> str:
    return (
        text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
