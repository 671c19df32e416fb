"""Refit the serving factors from the shipped public cases and write the package data anew."""

from pathlib import Path

from pulsewarp.guide.serving_cases import write_serving

if __name__ == "__main__":
    target = Path(__file__).parents[1] / "src/pulsewarp/guide/data/serving.json"
    print(f"wrote {write_serving(target)}")
