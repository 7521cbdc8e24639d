// What the page shows lives in its address, after the #: a link is a copy of it.

export function readState() { return Object.fromEntries(new URLSearchParams(location.hash.slice(1))) }

// Where a view looks: its middle, and how much of the plane its shorter side spans, whatever its size in pixels.

export function lookText(view) { // null at home: all of it
  const span = Math.min(view.width, view.height) / view.scale, home = view.homeAt(), near = (a, b) => Math.abs(a - b) < 1e-6 * span
  return near(view.x, home.x) && near(view.y, home.y) && near(view.scale / home.scale * span, span) ? null : [view.x, view.y, span].map(v => Number(v.toPrecision(12))).join(",")
}

export function lookThere(view, text) { // false if the text is no place
  const [x, y, span] = String(text).split(",").map(Number)
  if (![x, y, span].every(Number.isFinite) || span <= 0) return false
  view.lookAt(x, y, Math.min(view.width, view.height) / span)
  return true
}

export function writeState(patch) { // null removes a name
  const state = {...readState(), ...patch}
  for (const name of Object.keys(state)) if (state[name] === null || state[name] === undefined) delete state[name]
  history.replaceState(null, "", `#${String(new URLSearchParams(state)).replaceAll("%2C", ",").replaceAll("%3B", ";")}`)
}

// Points of one's own, x, y and class each.

export const formatPoints = points => points.map(p => p.map(v => Number(v.toFixed(3))).join(",")).join(";")
export const parsePoints = text => text.split(";").filter(Boolean).map(part => part.split(",").map(Number)).filter(p => p.length === 3 && p.every(Number.isFinite))
