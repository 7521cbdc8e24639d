// Take it home: pictures, tables, the tiling, a page, and the Python that makes them.

import {colorAt, levelOf} from "/viewer/colors.js"
import {element} from "/viewer/words.js"

const MOST_SVG = 50_000

export function takeHome(target, {view, name, fetch, code, points = () => [], plane = true}) { // points: [[x, y, colour]] on the picture
  const items = [
    ["PNG", () => picture(view()).toBlob(blob => save(`${name()}.png`, blob))],
    ...(plane ? [["SVG", () => save(`${name()}.svg`, svg(view(), points()))], ["CSV", () => save(`${name()}.csv`, csv(view()))]] : []),
    ["Tiling file", () => fetch("tiling")],
    ["HTML page", () => fetch("html")],
    ["Python…", async () => showCode(await code())],
    ["Copy link", event => navigator.clipboard?.writeText(`splinescope studio --at '${location.hash.slice(1)}'`).then(() => flash(event.target, "Copied"))],
  ]
  target.replaceChildren(...items.map(([label, act]) => {
    const button = element("button", {type: "button", textContent: label})
    button.onclick = event => view() && act(event)
    return button
  }))
}
takeHome.save = save

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

export function picture(view) { // tiles and what is drawn on them, as one canvas
  const {width, height} = view.overlay, out = element("canvas", {width, height}), pen = out.getContext("2d")
  view.draw()
  pen.drawImage(view.canvas, 0, 0, width, height) // which may be drawn coarser
  pen.drawImage(view.overlay, 0, 0)
  return out
}

export function svg(view, points = []) { // the tiles in view, as polygons in pixels
  const {data, quantity} = view, {offsets, corners, vertices, boundary} = data, parts = []
  const place = i => view.toScreen(vertices[2 * i], vertices[2 * i + 1]).map(v => v.toFixed(2)).join(",")
  for (let t = 0, drawn = 0; t < view.count && drawn < MOST_SVG; t++) {
    const b = 4 * t, [left, low] = view.toScreen(view.bounds[b], view.bounds[b + 1]), [right, high] = view.toScreen(view.bounds[b + 2], view.bounds[b + 3])
    if (right < 0 || left > view.width || low < 0 || high > view.height) continue
    const fill = quantity ? `rgb(${colorAt(quantity, levelOf(quantity, quantity.values[t])).join(",")})` : "#0f141c"
    parts.push(`<polygon points="${Array.from(corners.subarray(offsets[t], offsets[t + 1]), place).join(" ")}" fill="${fill}"/>`)
    drawn++
  }
  const lines = []
  for (let i = 0; view.show.boundary && i < boundary.length; i += 4) lines.push(`M${view.toScreen(boundary[i], boundary[i + 1]).map(v => v.toFixed(2))}L${view.toScreen(boundary[i + 2], boundary[i + 3]).map(v => v.toFixed(2))}`)
  const stroke = view.show.folds ? `stroke="${quantity ? "#000" : "#7ad151"}" stroke-width=".4"` : ""
  const dots = points.map(([x, y, color]) => { const [cx, cy] = view.toScreen(x, y); return `<circle cx="${cx.toFixed(2)}" cy="${cy.toFixed(2)}" r="4" fill="${color}" stroke="#000"/>` })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${view.width} ${view.height}"><g ${stroke}>${parts.join("")}</g><path d="${lines.join("")}" fill="none" stroke="#d60000" stroke-width="2"/>${dots.join("")}</svg>`
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

export function playgroundCode(recipe, defaults, steps, color, byHand) {
  const given = Object.entries(recipe).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(defaults[name])).map(([name, value]) => `${name}=${literal(value)}`)
  return `from splinescope.studio.recipe import Recipe
from splinescope.studio.trainer import Trainer

trainer = Trainer(Recipe(${given.join(", ")}))
trainer.train(${steps})
trainer.hold_statistics()
${byHand ? "# what you dragged is not in here: set trainer.x and the parameters of trainer.model\n" : ""}tiling = trainer.tile()  # exact; trainer.model is the torch module
ax = tiling.plot(color=${color === "folds" ? "None" : JSON.stringify(color)}, boundary=True)
ax.scatter(*trainer.x.T, c=trainer.y, edgecolors="black")
ax.figure.savefig("playground.png")
`
}
