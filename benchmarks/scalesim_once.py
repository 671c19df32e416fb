"""Ask SCALE-Sim for one product, in an environment of its own, and print what it took as one line of JSON.

    python benchmarks/scalesim_once.py SIDE CELLS DATAFLOW

Called by bench_scalesim.py. Only SCALE-Sim's public class is called; the settings are those under which the
reference numbers of tests/reference were printed: memory never makes it wait.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import time
from pathlib import Path

from scalesim.scale_sim import scalesim  # installed beside, never into the project's environment

CONFIGURATION = """\
[general]
run_name = bench
[architecture_presets]
ArrayHeight = {cells}
ArrayWidth = {cells}
Dataflow = {dataflow}
Bandwidth = 10
IfmapSramSzkB = 16384
FilterSramSzkB = 16384
OfmapSramSzkB = 4194304
IfmapOffset = 0
FilterOffset = 100000000
OfmapOffset = 200000000
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = False
"""


def ask(folder: Path, side: int, cells: int, dataflow: str, *, save_traces: bool) -> tuple[float, int]:
    """Return the processor time of one run and the cycles that its report prints."""
    files = {
        "configuration.cfg": CONFIGURATION.format(cells=cells, dataflow=dataflow),
        "product.csv": f"Layer,M,N,K,\nproduct,{side},{side},{side},\n",
        "layout.csv": "Layer,\n",  # read, and not used: no custom layouts
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    configuration, product, layout = (str(folder / name) for name in files)
    start = time.process_time()
    simulator = scalesim(
        save_disk_space=not save_traces,
        verbose=False,
        config=configuration,
        topology=product,
        layout=layout,
        input_type_gemm=True,
    )
    simulator.run_scale(top_path=str(folder))
    seconds = time.process_time() - start
    with (folder / "bench" / "COMPUTE_REPORT.csv").open(encoding="utf-8") as report:
        columns, row = (line[:-1] for line in csv.reader(report))  # each line ends in a comma
    return seconds, int(row[[name.strip() for name in columns].index("Total Cycles")])


def main() -> None:
    """Run once with traces saved, as its command does, and once without."""
    side, cells, dataflow = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, save_traces in (("without traces", False), ("with traces", True)):
            found[name], found["cycles"] = ask(Path(folder), side, cells, dataflow, save_traces=save_traces)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
