// The switches of the playground, made from what the server accepts.

import {colorOf} from "../viewer/colors.js"
import {element} from "../viewer/words.js"

const RATES = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3]
const DECAYS = [0, 0.0001, 0.001, 0.01, 0.1]
const TOLERANCES = [0.01, 0.03, 0.1, 0.3, 1]
const BATCHES = [2, 4, 8, 16, 32, 64, 128, 1000]
const WORDS = {
  relu: "ReLU", leaky: "leaky ReLU", abs: "absolute value", gelu: "GELU", tanh: "tanh", silu: "SiLU", softplus: "softplus",
  sigmoid: "sigmoid", none: "none", batch: "batch norm", layer: "layer norm", group: "group norm", rms: "RMS norm",
  weight: "weight norm", default: "PyTorch's default", he: "He, no offsets", "zero bias": "default, no offsets",
  mean: "centered on data", standard: "standardized on data", whiten: "whitened on data", quantile: "quantiles of data",
  unit_variance: "unit variance on data", sgd: "SGD", momentum: "SGD + momentum", adam: "Adam", adamw: "AdamW", data: "all data", own: "your own",
}
const LAYOUT = [
  ["Data", [["data", "", "sets"], ["count", "points", "slider", 10], ["noise", "noise", "slider", 0.01]]],
  ["Network", [["depth", "layers", "slider", 1], ["width", "units", "slider", 1], ["activation", "activation", "choice"], ["tolerance", "within", "values", TOLERANCES],
    ["norm", "normalize", "choice"], ["init", "start", "choice"], ["skip", "skip connections", "check"]]],
  ["Training", [["optimizer", "optimizer", "choice"], ["rate", "rate", "values", RATES], ["batch", "batch", "values", BATCHES],
    ["decay", "decay", "values", DECAYS], ["statistics", "statistics of", "choice"], ["seed", "seed", "seed"]]],
]

export class Switches {
  constructor(form, limits, recipe, onchange) {
    Object.assign(this, {form, limits, recipe, onchange, setters: {}})
    form.addEventListener("submit", event => event.preventDefault())
    form.replaceChildren(...LAYOUT.map(([title, rows]) => element("fieldset", {}, element("legend", {textContent: title}),
      ...rows.map(([name, label, kind, extra]) => this[kind](name, label, extra)))))
    this.show(recipe)
  }

  show(recipe) {
    this.recipe = recipe
    for (const [name, set] of Object.entries(this.setters)) set(recipe[name])
    const hide = (name, hidden) => { this.form.querySelector(`[data-name=${name}]`).hidden = hidden }
    hide("statistics", recipe.norm !== "batch")
    hide("tolerance", !this.limits.smooth.includes(recipe.activation))
    hide("count", recipe.data === "own")
    hide("noise", recipe.data === "own")
  }

  change(name, value) {
    this.show({...this.recipe, [name]: value})
    this.onchange(this.recipe, name)
  }

  field(name, label, input, extra = []) {
    input.id = `switch-${name}`
    return element("div", {className: "field", dataset: {name}}, element("label", {htmlFor: input.id, textContent: label}), element("div", {className: "with-value"}, input, ...extra))
  }

  choice(name, label) {
    const input = element("select", {}, ...this.limits.choices[name].map(value => new Option(name === "statistics" && value === "batch" ? "a random batch" : WORDS[value] ?? value, value)))
    input.onchange = () => this.change(name, input.value)
    this.setters[name] = value => { input.value = value }
    return this.field(name, label, input)
  }

  slider(name, label, step) {
    const [min, max] = this.limits.ranges[name], out = element("output")
    const input = element("input", {type: "range", min: step === 10 ? 10 : min, max, step})
    input.oninput = () => { out.textContent = input.value }
    input.onchange = () => this.change(name, Number(input.value))
    this.setters[name] = value => { input.value = value; out.textContent = String(value) }
    return this.field(name, label, input, [out])
  }

  values(name, label, list) {
    const text = value => name === "batch" && value === 1000 ? "all" : String(value)
    const input = element("select", {}, ...list.map(value => new Option(text(value), value)))
    input.onchange = () => this.change(name, Number(input.value))
    this.setters[name] = value => {
      if (!list.includes(value) && ![...input.options].some(o => Number(o.value) === value)) input.append(new Option(text(value), value))
      input.value = value
    }
    return this.field(name, label, input)
  }

  check(name, label) {
    const input = element("input", {type: "checkbox"})
    input.onchange = () => this.change(name, input.checked)
    this.setters[name] = value => { input.checked = value }
    return this.field(name, label, input)
  }

  seed(name, label) {
    const input = element("input", {type: "number", min: 0, max: 2 ** 31 - 1}), dice = element("button", {type: "button", textContent: "⚂", title: "another seed", ariaLabel: "another seed"})
    input.style.width = "5.5rem"
    input.onchange = () => this.change(name, Math.max(0, Math.round(Number(input.value)) || 0))
    dice.onclick = () => this.change(name, Math.floor(Math.random() * 10000))
    this.setters[name] = value => { input.value = value }
    return this.field(name, label, input, [dice])
  }

  sets(name) { // one small picture per data set
    const buttons = this.limits.choices.data.map(value => {
      const canvas = element("canvas", {width: 96, height: 96}), button = element("button", {type: "button", title: WORDS[value] ?? value}, canvas, element("span", {textContent: WORDS[value] ?? value}))
      button.setAttribute("aria-label", `data: ${WORDS[value] ?? value}`)
      thumbnail(canvas, value)
      button.onclick = () => this.change(name, value)
      return [value, button]
    })
    this.setters[name] = chosen => buttons.forEach(([value, button]) => button.setAttribute("aria-pressed", String(value === chosen)))
    const box = element("div", {className: "sets"}, ...buttons.map(([, button]) => button))
    box.setAttribute("role", "group")
    box.setAttribute("aria-label", "data set")
    return box
  }
}

const CLASSES = {categories: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}
export const classColor = label => colorOf(CLASSES, label)

function thumbnail(canvas, name) { // a sketch of the set, for its button only
  const pen = canvas.getContext("2d"), dots = []
  const turn = (radius, angle, label) => dots.push([48 + radius * Math.cos(angle), 44 + radius * Math.sin(angle), label])
  for (let i = 0; i < 24; i++) {
    const s = i / 23, a = 2 * Math.PI * i / 24
    if (name === "moons") { dots.push([40 + 24 * Math.cos(Math.PI * s), 48 - 24 * Math.sin(Math.PI * s), 0], [58 + 24 * Math.cos(Math.PI * s), 40 + 24 * Math.sin(Math.PI * s), 1]) }
    if (name === "circles") { turn(33, a, 0); turn(15, a, 1) }
    if (name === "star") { const r = i % 4 < 2 ? 34 - 9 * (i % 2) : 18 + 9 * (i % 2); turn(r, a - Math.PI / 2, 0); turn(r / 2, a - Math.PI / 2, 1) }
    if (name === "spirals") { turn(4 + 30 * s, 8 * s, 0); turn(4 + 30 * s, 8 * s + Math.PI, 1) }
    if (name === "xor") { const x = (i * 37 % 24) / 24, y = (i * 53 % 24) / 24; for (const [u, v] of [[0, 0], [1, 0], [0, 1], [1, 1]]) if (i % 2) dots.push([16 + 38 * u + 26 * x, 12 + 38 * v + 26 * y, u ^ v]) }
    if (name === "blobs") { const k = i % 3, b = i * 2.4, r = 11 * Math.sqrt((i * 7 % 24) / 24); dots.push([48 + 24 * Math.cos(2.09 * k - 1.57) + r * Math.cos(b), 46 + 24 * Math.sin(2.09 * k - 1.57) + r * Math.sin(b), k]) }
  }
  for (const [x, y, label] of dots) {
    pen.beginPath(); pen.arc(x, y, 3.6, 0, 2 * Math.PI)
    pen.fillStyle = classColor(label); pen.fill()
    pen.strokeStyle = "#0006"; pen.lineWidth = 0.8; pen.stroke()
  }
  if (name === "own") { pen.font = "44px system-ui"; pen.textAlign = "center"; pen.fillStyle = "#888"; pen.fillText("✎", 48, 58) }
}
