// Pages and films to take home: the viewer, and what it draws here, in one file that needs nothing else, as Python's
// `to_html` makes it; and moments as a GIF.

import {sharedScale} from "../viewer/colors.js"
import {pack} from "../viewer/frame.js"
import {gif} from "./gif.js"
import {picture} from "./pictures.js"

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

export async function filmPage(view, title, moments) { // of frames with `moment`, their name
  const color = colorOfAll(view, moments), small = values => Float32Array.from(values)
  const drawn = moments.map(frame => ({
    ...drawnOf(frame), title, moment: frame.moment, vertices: small(frame.vertices), boundary: small(frame.boundary),
    quantities: frame.quantities.filter(q => ["class", color].includes(q.name)),
  }))
  return fewer(drawn, some => pageOf({...PLANE, explore: "exploreFilm"}, title, {moments: some, look: {...lookOf(view), color}}))
}

export function filmGif(view, moments, show) { // `show` puts one of them on the view, and gives its points
  const color = colorOfAll(view, moments), scale = sharedScale(moments, color), width = Math.min(640, Math.round(view.width))
  const pictures = moments.map(frame => {
    const points = show(frame)
    view.colorBy(color, scale)
    const canvas = picture(view, points, {width, ratio: 1, caption: frame.moment})
    return {canvas, pixels: canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data}
  })
  const {canvas} = pictures[0], pause = Math.round(Math.max(10, 600 / moments.length))
  return fewer(pictures, some => gif(some.map(each => each.pixels), canvas.width, canvas.height, some.map((_, i) => i < some.length - 1 ? pause : 200)))
}

// While training runs, frames have what was colored by then, and classes.
const colorOfAll = ({colored}, moments) => colored === "folds" || moments.every(frame => frame.quantities.some(q => q.name === colored)) ? colored : "class"

async function fewer(moments, made) { // rather than a file that no mail takes
  const file = await made(moments)
  return file.size < MOST_BYTES || moments.length < 3 ? file : fewer(moments.filter((_, i) => i % 2 === 0 || i === moments.length - 1), made)
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
