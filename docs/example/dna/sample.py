"""Small made-up input, with what real files hold: a record that was there before, a letter that is no base."""


def write_sample(folder, generator):
    records = ["".join(generator.choice(list("ACGT"), 7)) * 40 for _ in range(200)]
    records += [records[0], "ACGTTGCAXACGT"]
    (folder / "sample.fasta").write_text("".join(f">record {n}\n{bases}\n" for n, bases in enumerate(records)))
