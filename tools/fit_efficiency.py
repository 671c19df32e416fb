"""Refit the training efficiency from the shipped public cases and write the package data anew."""

from pathlib import Path

from pulsewarp.guide.efficiency import write_efficiency

if __name__ == "__main__":
    target = Path(__file__).parents[1] / "src/pulsewarp/guide/data/efficiency.json"
    print(f"wrote {write_efficiency(target)}")
