// Where a slice along axes begins and ends: as the network's file says, if it does.

const $ = id => document.getElementById(id), AXES = ["axis-x", "axis-y", "axis-z"]
let fromFile = false // whether the fields were filled from a file, not by hand

export function readEnds(text) { // one number, or one for each axis
  const numbers = text.split(",").map(part => part.trim() === "" ? NaN : Number(part))
  return numbers.length > 1 ? numbers : numbers[0]
}

export const middle = ranges => ranges.map(([low, high]) => (low + high) / 2)

export function startRanges(ranges) { // of a network that was just opened
  if (ranges.length) likeAxes(ranges).forEach((axis, i) => { $(AXES[i]).value = axis })
  else if (fromFile) { AXES.forEach((id, i) => { $(id).value = i }); $("low").value = -1; $("high").value = 1; fromFile = false }
  showRanges(ranges)
}

export function showRanges(ranges) { // of the axes that are chosen
  const chosen = AXES.slice(0, $("slice-kind").value === "space" ? 3 : 2).map(id => ranges[Number($(id).value)])
  if (!chosen.every(Boolean)) return
  ;["low", "high"].forEach((id, end) => {
    const ends = chosen.map(range => range[end])
    $(id).value = new Set(ends).size === 1 ? ends[0] : ends.join(", ")
  })
  fromFile = true
}

export function tooLong(domain) { // what to say of a plane that is hardly more than a line on a screen; null if it is not
  const [wide, high] = [0, 1].map(k => { const along = domain.filter((_, i) => i % 2 === k); return Math.max(...along) - Math.min(...along) })
  const times = Math.max(wide / high, high / wide)
  return times > 30 ? `Pictures are to scale, and one axis is ${Number(times.toPrecision(2)).toLocaleString("en")} times as long as the other. Take other axes, or less of the long one.` : null
}

function likeAxes(ranges) { // the first two that fit in one picture, neither ten times as long as the other; then any third
  const long = ranges.map(([low, high]) => high - low), all = [...long.keys()]
  const pairs = all.flatMap(i => all.slice(i + 1).map(j => [i, j]))
  const pair = pairs.find(([i, j]) => Math.max(long[i] / long[j], long[j] / long[i]) < 10) ?? [0, 1]
  return [...pair, ...all.filter(i => !pair.includes(i)).slice(0, 1)]
}
