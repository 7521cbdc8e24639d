// Take it home: pictures, tables, the tiling, a page, and the Python that makes them.

import {element} from "../viewer/words.js"
import {filmGif, filmPage, planePage, spacePage} from "./page.js"
import {picture, svg} from "./pictures.js"

export const MOST_MOMENTS = 60 // of a film

// points: [[x, y, class or null]] on the picture; moments: frames with their name as `moment`; show(frame): puts one on the view
export function takeHome(target, {view, name, title, fetch, code, points = () => [], plane = true, moments, show}) {
  const items = [
    ["PNG", () => picture(view(), points()).toBlob(blob => save(`${name()}.png`, blob))],
    ...(plane ? [["SVG", () => save(`${name()}.svg`, svg(view(), points()))], ["CSV", () => save(`${name()}.csv`, csv(view()))]] : []),
    ...(fetch ? [["Tiling file", () => fetch()]] : []),
    ["HTML page", async () => save(`${name()}.html`, await (plane ? planePage(view(), title(), points()) : spacePage(view(), title())))],
    ...(moments ? [
      ["Film page", async () => save(`${name()}-film.html`, await filmPage(view(), title(), await moments())), "film"],
      ["GIF", async () => save(`${name()}.gif`, await gifOf(view(), await moments(), show, points)), "film"],
    ] : []),
    ["Python…", async () => showCode(await code())],
    ["Copy link", event => navigator.clipboard?.writeText(linkText()).then(() => flash(event.target, "Copied"))],
  ]
  target.replaceChildren(...items.map(([label, act, className = ""]) => {
    const button = element("button", {type: "button", textContent: label, className})
    button.onclick = async event => { if (!view()) return; button.disabled = true; try { await act(event) } finally { button.disabled = false } }
    return button
  }))
}
takeHome.save = save

// Double quotes, since Windows' shell knows no others; no % where it can be helped, since that one reads them.
export const linkText = () => document.documentElement.dataset.engine === "worker" ? location.href : `splinescope studio --at "${location.hash.slice(1)}"`

async function gifOf(view, moments, show, points) {
  const {data} = view
  view.hover(-1, -1)
  try { return await filmGif(view, moments, frame => { show(frame); return points() }) } finally { show(data) }
}

function flash(button, text) {
  const before = button.textContent
  button.textContent = text
  setTimeout(() => { button.textContent = before }, 1200)
}

function save(name, content) {
  const link = element("a", {download: name, href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content]))})
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

export function csv(view) { // one row per tile
  const {quantities, offsets, corners, vertices} = view.data, rows = [["tile", "x", "y", ...quantities.map(q => q.name)].join(",")]
  for (let t = 0; t < view.count; t++) {
    let x = 0, y = 0
    const n = offsets[t + 1] - offsets[t]
    for (let c = offsets[t]; c < offsets[t + 1]; c++) { x += vertices[2 * corners[c]] / n; y += vertices[2 * corners[c] + 1] / n }
    rows.push([t, x, y, ...quantities.map(q => q.values[t])].join(","))
  }
  return `${rows.join("\n")}\n`
}

function showCode(text) {
  const close = element("button", {type: "button", textContent: "Close"}), copy = element("button", {type: "button", textContent: "Copy", className: "primary"})
  const box = element("dialog", {}, element("h2", {textContent: "The Python that makes this picture"}), element("pre", {textContent: text}), copy, " ", close)
  copy.onclick = () => navigator.clipboard?.writeText(text).then(() => flash(copy, "Copied"))
  close.onclick = () => box.close()
  box.onclose = () => box.remove()
  document.body.append(box)
  box.showModal()
}

const literal = value => typeof value === "boolean" ? (value ? "True" : "False") : Array.isArray(value) ? `(${value.map(p => `(${p.join(", ")})`).join(", ")},)` : JSON.stringify(value)

export function playgroundCode(recipe, defaults, steps, {color, walls, boundary, points, layers}, at, byHand) { // at: [x0, x1, y0, y1] in sight, or null for all
  const given = Object.entries(recipe).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(defaults[name])).map(([name, value]) => `${name}=${literal(value)}`)
  const drawn = color === "folds" ? `ax = plot_folds(tiling)${boundary ? "\nplot_boundary(tiling, ax)" : ""}`
    : `ax = tiling.plot(color=${JSON.stringify(color)}, edges=${literal(walls)}, boundary=${literal(boundary)}, anchors=False)`
  const used = [color === "folds" && boundary && "plot_boundary", color === "folds" && "plot_folds", points && "plot_points"].filter(Boolean)
  return `${used.length ? `from splinescope.plot import ${used.join(", ")}\n` : ""}from splinescope.studio.recipe import Recipe
from splinescope.studio.trainer import Trainer

trainer = Trainer(Recipe(${given.join(", ")}))
trainer.train(${steps})
trainer.hold_statistics()
${byHand ? "# what you dragged is not in here: set trainer.x and the parameters of trainer.model\n" : ""}tiling = trainer.tile()  # exact; trainer.model is the torch module
${layers < recipe.depth ? `# the page shows folds up to layer ${layers}, this picture those of all layers\n` : ""}${drawn}
${points ? "plot_points(tiling, trainer.x, ax, y=trainer.y)\n" : ""}${at ? `ax.set(xlim=(${at[0]}, ${at[1]}), ylim=(${at[2]}, ${at[3]}))\n` : ""}ax.figure.savefig("playground.png")
`
}
