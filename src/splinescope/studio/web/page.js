// A page to take home: the viewer, and what it draws here, in one file that needs nothing else. Python's `to_html` makes the same.

import {pack} from "../viewer/frame.js"

const SHARED = ["frame.js", "colors.js", "gl.js", "pointer.js", "words.js"]
const PLANE = {body: "explorer.html", explore: "explore", modules: [...SHARED, "mesh.js", "software.js", "painter.js", "viewer.js", "panel.js"]}
const SPACE = {body: "space.html", explore: "exploreSpace", modules: [...SHARED, "solid.js", "camera.js", "space_painter.js", "space.js", "space_panel.js"]}
const MOST_BYTES = 5e6 // of a film
const DRAWN = ["notes", "numbers", "rest", "vertices", "offsets", "corners", "depths", "domain", "anchors", "labels", "boundary", "values", "quantities"] // of a plane

const text = async name => (await fetch(new URL(`../viewer/${name}`, import.meta.url))).text()

export const spacePage = (view, title) => pageOf(SPACE, title, view.data)

const drawnOf = data => Object.fromEntries(DRAWN.map(name => [name, data[name] ?? null]))

function lookOf(view) {
  const hide = Object.keys(view.show).filter(name => !view.show[name] && name !== "anchors"), span = Math.min(view.width, view.height) / view.scale
  return {color: view.colored, hide, layers: view.layers, at: [view.x, view.y, span]}
}

export function planePage(view, title, points) { // points: [[x, y, class]]
  const {quantity, data} = view, labels = points.map(p => p[2])
  return pageOf(PLANE, title, {
    ...drawnOf(data), title,
    quantities: data.quantities.map(q => q.name === quantity?.name ? quantity : q), // on the scale of this picture
    anchors: points.flatMap(p => p.slice(0, 2)), labels: labels.every(Number.isInteger) ? labels : [],
    look: lookOf(view),
  })
}

export async function filmPage(view, title, frames) { // frames of the playground; fewer of them, rather than a page that no mail takes
  const {colored} = view, small = values => Float32Array.from(values)
  const moments = frames.map(frame => ({
    ...drawnOf(frame), title, vertices: small(frame.vertices), boundary: small(frame.boundary),
    quantities: frame.quantities.filter(q => ["class", colored].includes(q.name)),
    anchors: Array.from(frame.points), labels: Array.from(frame.classes), moment: `step ${frame.step}`,
  }))
  const page = await pageOf({...PLANE, explore: "exploreFilm"}, title, {moments, look: lookOf(view)})
  return page.size < MOST_BYTES || frames.length < 3 ? page : filmPage(view, title, frames.filter((_, i) => i % 2 === 0 || i === frames.length - 1))
}

export async function pageOf({body, explore, modules}, title, content) {
  const files = await Promise.all(["tiling.html", "tiling.css", body, ...modules].map(text)), [template, style, elements, ...scripts] = files
  const script = scripts.join("\n").replace(/^import .*\n|^export (?=\w)/gm, "")
  const parts = {title: title.replace(/[&<>]/g, c => `&#${c.charCodeAt(0)};`), style, body: elements, script, explore, data: await compressed(pack(content))}
  return new Blob([template.replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name])], {type: "text/html"})
}

async function compressed(bytes) { // base64 of a zlib stream, as `unpackText` reads it
  const packed = await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"))).blob()
  return new Promise(done => {
    const reader = new FileReader()
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1))
    reader.readAsDataURL(packed)
  })
}
