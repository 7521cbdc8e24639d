// Words beside a picture: elements, numbers, lists, legends. Shared by the pages and the studio.

import {colorOf, FIRST_FOLD, gradient, markOf, pointColor} from "./colors.js"

export function element(tag, properties = {}, ...children) {
  const {dataset, ...rest} = properties, made = Object.assign(document.createElement(tag), rest)
  Object.assign(made.dataset, dataset)
  made.append(...children)
  return made
}

export function number(v) {
  return Number.isInteger(v) ? String(v) : Math.abs(v) >= 1e-3 && Math.abs(v) < 1e5 ? v.toPrecision(5) : v.toExponential(3)
}

export function fillList(target, rows) {
  target.replaceChildren(...rows.flatMap(([key, value]) => [element("dt", {textContent: key}), element("dd", {textContent: value})]))
}

export const classOf = outputs => outputs.length === 1 ? Number(outputs[0] > 0) : outputs.indexOf(Math.max(...outputs)) // at a point: a tile may have several

export const shown = (q, v) => q.categories ? q.categories[v] ?? String(v) : number(v)

export function legendOf(view) { // what a picture's legend says: {name, classes: [[number, name, color]]} or {name, low, high, log, from}; and `boundary`
  const q = view.quantity, boundary = view.hasBoundary ?? false
  if (!q?.categories) return {name: q ? q.label : "depth of the fold", low: q ? q.low : 1, high: q ? q.high : view.deepest, log: q?.log, from: q ? 0 : FIRST_FOLD, boundary}
  const cut = view.cutsClasses ?? false, present = new Set(q.values) // classes that win on a part of a tile only are seen, too
  const classes = q.categories.map((name, i) => [i, name, colorOf(q, i)]).filter(([i]) => cut || present.has(i))
  return {name: q.label, classes, boundary}
}

export function classMark(i, label, color) { // a class's color and name, in the shape that marks its points
  const swatch = element("i", {className: "swatch"})
  swatch.style.background = color
  swatch.style.clipPath = `polygon(${markOf(i).map(([x, y]) => `${50 + 36 * x}% ${50 - 36 * y}%`).join(",")})`
  return element("span", {}, swatch, label)
}

export function fillLegend(target, view, labels = view.show.anchors ? view.data.labels : []) { // labels: classes of the data in sight
  const {name, classes, low, high, log, from, boundary} = legendOf(view), by = element("div")
  if (classes) {
    by.className = "classes"
    for (const [i, label, color] of classes) by.append(classMark(i, label, color), " ")
  } else {
    const bar = element("div", {id: "bar", className: "bar"})
    bar.style.background = gradient(from)
    by.append(bar, element("div", {className: "ends"}, ...[number(low), log ? "logarithmic" : "", number(high)].map(text => element("span", {textContent: text}))))
  }
  const line = element("div", {className: "line", hidden: !boundary}, element("i"), "decision boundary")
  target.replaceChildren(element("div", {className: "name", textContent: name}), by, line)
  if (classes || !labels?.length) return // colors of classes say which mark is whose
  const present = [...new Set(labels)].sort((a, b) => a - b)
  target.append(element("div", {className: "classes"}, "data of class ", ...present.flatMap(label => [classMark(label, String(label), pointColor([label], 0)), " "])))
}

export function timeSlider(root, names, show, at) { // through moments, with Play, in a page's header; `show(i)` draws one
  const last = names.length - 1, now = element("output", {ariaLive: "off"}), play = element("button", {id: "play", textContent: "play"})
  const time = element("input", {type: "range", min: 0, max: last, value: at, id: "time", ariaLabel: "moment"})
  const go = i => { time.value = i; now.textContent = names[i]; show(i) }
  let playing = 0
  const pause = () => { clearInterval(playing); playing = 0; play.textContent = "play" }
  time.oninput = () => { pause(); go(Number(time.value)) }
  play.onclick = () => {
    if (playing) return pause()
    if (Number(time.value) === last) go(0)
    play.textContent = "pause"
    playing = setInterval(() => { go(Number(time.value) + 1); if (Number(time.value) === last) pause() }, Math.max(150, 6000 / names.length))
  }
  root.querySelector("header").append(element("div", {className: "film"}, play, time, now))
  go(at)
}

export function showError(target, error) {
  target.replaceChildren(element("p", {id: "error", textContent: error.message}))
  console.error(error)
}
