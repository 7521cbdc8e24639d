"""Numbers of experiments that pages of the documentation quote are those of docs/evidence.json."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

QUOTED = {
    ("normalization.md", "survey-bn-tls"): ("113", "630", "300 random"),
    ("normalization.md", "essay-margin"): ("-0.0675", "-0.0893", "-0.0458"),
    ("normalization.md", "essay-batch-size"): (
        *("-0.1649", "-0.2494", "-0.0803", "+0.0522", "+0.0299", "+0.0746", "+0.0530", "-0.0049", "+0.0175"),
        *("-0.0878", "-0.0548"),
    ),
    ("normalization.md", "essay-normalizations"): ("25.03", "1.36", "1.27", "1.24", "1.22", "1.18", "1.17"),
    ("normalization.md", "essay-initialization"): (
        *("0.119", "0.139", "0.182", "0.454", "0.549", "0.476", "2.302", "0.613", "0.786", "0.751", "0.963", "0.994"),
        *("-0.026 to -0.009", "-0.068 to -0.006"),
    ),
    ("normalization.md", "survey-fig8"): ("7.2", "13.7", "19.1", "8.4", "16.5", "23.5", "2.0", "3.9", "3.7"),
    ("generative.md", "survey-eq10"): ("2.4e-11", "3.6e-15", "126"),
    ("generative.md", "survey-fig10"): ("264", "341", "1.2e-12", "1.2e-15", "-1.0049", "-1.0159", "-0.9939"),
    ("generative.md", "survey-magnet"): ("0.841", "1.16", "0.044", "2.25", "4.22", "288", "951", "0.816", "123", "203"),
    ("generative.md", "survey-fig12"): (
        *("-2.60", "-3.68", "-4.95", "-6.87", "0.73", "0.53", "0.33", "0.10", "2.09 to 2.62", "-2.07", "-1.95"),
        *("0.38 to 0.93", "0.81", "0.80", "-0.07 to 0.22", "5 of 12", "0.26"),
    ),
    ("generative.md", "survey-fig11-mini"): ("1.752", "2.037", "49.2%", "33.7%", "1.972", "2.233", "10.3%", "2.254"),
    ("landscape.md", "survey-piecewise-quadratic"): ("4.4e-15", "1.5e-07", "4.7e+07"),
    ("landscape.md", "survey-resnet-conditioning"): ("2.70", "3.28"),
    ("representation.md", "decomposed-thm3"): ("3.81", "5.41", "7.36", "11.94", "17.39", "26.86"),
    ("representation.md", "decomposed-fig2"): (
        *("113 to 116", "11 to 22", "11 to 19", "1 to 1", "0.998", "0.104", "0.101", "differ by 0 at most"),
        *("2.23 to 3.07", "2.27 to 3.27", "-0.40 to 0.64"),
    ),
    ("representation.md", "decomposed-fig5"): (
        *("57.4", "60.3", "0.5", "1.4", "9.0", "31.8", "0.02", "0.04", "0.71", "0.82 to 1.07", "0.96 to 1.12"),
    ),
    ("representation.md", "decomposed-init"): ("28 steps against 25", "-11.8", "+6.0"),
    ("representation.md", "decomposed-fig1"): ("0.935",),
    ("representation.md", "decomposed-mean-width"): ("20 ", "0.711 to 0.862", "0.606 to 0.662"),
    ("meanfield.md", "meanfield-fig2"): ("21.4", "13.9", "26", "10.2", "4.06", "17.1"),
    ("complexity.md", "survey-lc-phases"): ("0.65", "1.58", "0.46", "0.98", "0.50", "0.35", "0.33"),
    ("complexity.md", "survey-bn-grokking"): ("1.90", "1.79", "2.00", "0.40", "0.33", "0.47", "0.93", "0.82", "1.03"),
    ("smooth.md", "survey-language-models"): (
        *("0.61 to 0.73", "0.68 to 0.84", "0.88 to 0.91", "0.60 to 0.66", "0.62 to 0.79", "0.52 to 0.62"),
        *("0.87 to 0.99", "0.31 to 0.62", "0.69 to 0.84", "0.56 to 0.65", "1.00 to 1.15"),
    ),
    ("smooth.md", "survey-steering"): ("0.34", "0.29 to 0.40", "+0.001", "-0.001 to +0.002", "-0.011 to +0.013"),
    ("complexity.md", "survey-fig9"): ("0.54", "0.46", "0.62"),
    ("landscape.md", "survey-fig6"): ("0.69", "0.56", "0.82", "-0.03", "+0.32"),
    ("complexity.md", "survey-lc-proxy"): ("0.999", "0.911", "0.872"),
    ("open_questions/manifold.md", "survey-manifold-law"): (
        *("0.56", "1.49", "0.031", "0.010", "0.465", "0.980", "6.7%", "94.4%", "1.57"),
        *("9 to 57", "34 images", "4.88e-20", "0.002", "2.51e-35", "0.105", "150 draws", "15.0%", "7.5%", "100.0%"),
    ),
    ("open_questions/self_similarity.md", "survey-self-similarity"): (
        *("0.48", "0.015 and 0.017", "-0.006 to +0.004", "0.016 and 0.016", "-0.004 to +0.004", "0.041 and 0.040"),
        *("-0.007 to +0.010", "0.025 and 0.023", "-0.008 to +0.013", "0.026 and 0.024", "-0.010 to +0.013"),
        "+0.020 to +0.045",
        *("+0.001 to +0.058", "+0.005 to +0.103", "+0.006 to +0.034", "+0.011 to +0.047"),
    ),
    ("open_questions/batch_size.md", "essay-fidelity"): ("-0.758", "-0.789", "-0.726"),
    ("open_questions/batch_size.md", "essay-fidelity-laws"): (
        *("-0.591", "-0.618", "-0.565", "0.678", "0.0953", "-0.679", "-0.352"),
    ),
    ("open_questions/batch_size.md", "essay-fidelity-tells"): (
        *("-0.51", "-0.69", "-0.33", "0.944", "-0.10", "-0.59", "+0.38", "-0.37", "+0.33", "-0.36", "-0.76", "+0.05"),
        *("-3.409", "-3.788", "-3.031"),
    ),
    ("open_questions/batch_size.md", "essay-jitter"): ("-0.72",),
    ("open_questions/optimizer.md", "survey-optimizer"): (
        *("0.0087", "0.327", "0.0196", "0.438", "0.0565", "0.588", "0.999", "260", "53.6", "2.84"),
        *("0.672", "0.494 to 0.858", "0.92 to 1", "1.3 to 2", "1.3 to 6.4"),
    ),
    ("open_questions/normalizations.md", "survey-placed-norms"): (
        "0.890",
        "1.003",
        "0.0016",
        "0.0133",
        "0.0277",
        "0.3921",
        "0.0083",
        *("0.999 to 1.003", "0.71 (0.68 to 0.74)", "0.0488", "0.0831", "0.0505", "-0.0009 to +0.0017"),
        *("-0.0563", "-0.3057", "3.53", "3.00", "1.50", "1.80", "1.31", "2.95", "3.15"),
    ),
    ("open_questions/depth.md", "essay-depth-curvature"): (
        *("+0.34", "+0.05", "+0.62", "-0.28", "-0.52", "-0.05"),
        *("-0.34", "-0.23", "-0.60", "-0.24", "-0.76", "-0.44", "+0.57", "+0.47", "-0.01", "-0.03", "+0.50"),
        *("-0.10 (-0.44 to +0.24)", "+0.00 (-0.10 to +0.11)", "+0.07 to +0.27", "+0.17 to +0.34", "+0.13 to +0.50"),
        *("+0.10 to +0.53", "-0.69 to -0.45", "+0.04 to +0.40", "+0.42 to +0.72", "+0.32 to +0.62", "+0.37 to +0.62"),
        *("-0.56 to -0.31", "-0.56 to -0.45", "+0.02 to +0.51"),
    ),
    ("open_questions/batch_norm_early.md", "survey-merge-away"): (
        *("147 to", "0.192 to 0.323", "18.4", "17.4 to 19.4", "1.41 to 1.71", "2.86 to 4.18", "11.9"),
        *("-0.141 to -0.00937", "0.988", "0.987", "0.985", "-0.00495 to 0.00746", "-0.00633 to 0.0139"),
        *("0.395 to 0.465", "0.305 to 0.415", "steps 100, 100, 100, 100, 79", "19.9", "19.5 to 20.5", "1.54 to 1.83"),
        *("3.07 to 4.54", "1.05 to 1.11", "1.56", "0.296", "-0.169 to -0.0868", "-0.145 to 0.0113"),
        *("-0.0189 to 0.0349", "-0.00784 to 0.0134", "-0.00519 to 0.00569"),
    ),
    ("open_questions/migration.md", "survey-migration"): (
        *("0.36 to 0.48", "0.52 to 0.97", "0.26 to 1.15", "0.83 to 1.78", "0.48 to 3.39", "-0.09", "+0.34", "-0.35"),
        *("-0.94", "+0.86", "-0.19", "-0.385 to -0.002", "+0.32", "-0.02 to +0.66", "-0.18", "-0.470 to +0.111"),
        *("-0.10", "-0.240 to +0.044", "-0.07", "0.00014", "2.16 to 3.39", "1.34 to 2.55", "1.01 to 1.29"),
        *("0.34 to 0.52", "0.44 to 0.86", "0.70 to 2.01", "4.28 to 6.18", "3.30, 1.06, 0.48", "0.82 to 9.69"),
        *("0.46 to 14.73", "0.91 to 1.23", "0.82 to 1.31"),
    ),
    ("complexity.md", "survey-migration"): ("2.16 to 3.39", "1.34 to 2.55", "1.01 to 1.29"),
    ("open_questions/initialization.md", "essay-initialization-deep"): (
        "0.40 to 0.76",
        "0.55 to 0.84",
        "2.06 to 4.74",
        "0.92 to 1.46",
        "0.98 to 1.06",
    ),
}
"""Page and experiment: what the page quotes of it."""

AGAIN = {
    ("open_questions/batch_size.md", "essay-fidelity"): (
        *("0.0063", "0.0009", "0.0118", "0.0170", "0.0041", "0.0299", "-0.0065 to +0.0040"),
    ),
    ("open_questions/manifold.md", "survey-manifold-law"): ("11.7%", "0.73", "1.44", "0.053"),
    ("open_questions/normalizations.md", "survey-placed-norms"): ("1.011", "0.924 to 1.106", "0.0038", "0.0058"),
}
"""The same of another seed, docs/evidence-again.json."""


@pytest.mark.parametrize(("page", "experiment_id"), QUOTED)
def test_a_page_quotes_what_was_measured(page: str, experiment_id: str) -> None:
    assert_quoted(page, QUOTED[page, experiment_id], measured("evidence.json", experiment_id))


@pytest.mark.parametrize(("page", "experiment_id"), AGAIN)
def test_a_page_quotes_what_another_seed_measured(page: str, experiment_id: str) -> None:
    assert_quoted(page, AGAIN[page, experiment_id], measured("evidence-again.json", experiment_id))


def measured(file: str, experiment_id: str) -> str:
    records = json.loads((DOCS / file).read_text(encoding="utf-8"))
    (record,) = (record for record in records if record["id"] == experiment_id)
    return "; ".join(claim["measured"] for claim in record["claims"])


def assert_quoted(page: str, numbers: tuple[str, ...], row: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for number in numbers:
        assert number in text, f"{page} no longer says {number}"
        assert number in row, f"{page} says {number}, which the row does not"
