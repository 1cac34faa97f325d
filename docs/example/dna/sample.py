"""Small made-up input, with what real files hold: a record that was there before, a letter that is no base."""


def write_sample(folder, generator):
    records = ["".join(generator.choice(list("ACGT"), 7)) * 40 for _ in range(200)]
    records += [records[0], "ACGTTGCAXACGT"]
    text = "".join(f">record {number}\n{bases}\n" for number, bases in enumerate(records))
    (folder / "sample.fasta").write_text(text)
