// What the page shows lives in its address, after the #: a link is a copy of it.

export function readState() { return Object.fromEntries(new URLSearchParams(location.hash.slice(1))) }

export function writeState(patch) { // null removes a name
  const state = {...readState(), ...patch}
  for (const name of Object.keys(state)) if (state[name] === null || state[name] === undefined) delete state[name]
  history.replaceState(null, "", `#${new URLSearchParams(state)}`)
}
