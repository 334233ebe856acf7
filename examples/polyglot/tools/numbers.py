import statistics


def summary(ctx, input):
    digits = ctx.config.get("digits", 2)
    numbers = input["numbers"]
    ctx.logger.info("summed up", count=len(numbers))
    return ctx.output(
        {"mean": round(statistics.mean(numbers), digits), "median": statistics.median(numbers)},
        title=f"Summed up {len(numbers)} numbers",
    )


# Each function is the export of the same name in goondan.yaml.
handlers = {"summary": summary}
