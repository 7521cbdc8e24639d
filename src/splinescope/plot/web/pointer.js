// Mouse, fingers and keys on one element, for every view.
//
//   listenTo(element, {hover(px, py), leave(), tap(px, py, event), drag(dx, dy, event, fingers), pinch(factor, px, py),
//     wheel(factor, px, py), double(px, py), grab(px, py, event), key(name, event)})
//
// `grab` may return {move(px, py), end()}: what else there is to drag than the view. `key` returns whether it knew the key.

const TAP = 6 // pixels a pointer may move and still be a tap

export function listenTo(target, handlers) {
  const pointers = new Map()
  let dragged = null, start = null
  const place = event => { const box = target.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top] }
  const spread = () => { const [a, b] = [...pointers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]) }
  target.addEventListener("pointerdown", event => {
    target.setPointerCapture(event.pointerId)
    pointers.set(event.pointerId, place(event))
    start = pointers.size === 1 ? place(event) : null
    dragged = pointers.size === 1 ? handlers.grab(...place(event), event) : null
  })
  const release = event => {
    const now = place(event)
    pointers.delete(event.pointerId)
    dragged?.end()
    if (start && event.type === "pointerup" && Math.hypot(now[0] - start[0], now[1] - start[1]) < TAP) {
      handlers.hover(...now) // a finger never hovers: its tap asks what is here
      if (!dragged) handlers.tap(...now, event)
    }
    start = dragged = null
  }
  for (const end of ["pointerup", "pointercancel"]) target.addEventListener(end, release)
  target.addEventListener("pointermove", event => {
    const now = place(event), before = pointers.get(event.pointerId)
    if (!before) return handlers.hover(...now)
    if (dragged) return dragged.move(...now)
    const apart = pointers.size === 2 ? spread() : 0
    pointers.set(event.pointerId, now)
    const share = 1 / pointers.size
    handlers.drag(share * (now[0] - before[0]), share * (now[1] - before[1]), event, pointers.size)
    if (apart > 0) handlers.pinch(spread() / apart, ...now)
  })
  target.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") handlers.leave() })
  target.addEventListener("wheel", event => {
    event.preventDefault()
    handlers.wheel(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...place(event))
  }, {passive: false})
  target.addEventListener("dblclick", event => handlers.double(...place(event)))
  target.addEventListener("keydown", event => {
    if (!event.ctrlKey && !event.metaKey && handlers.key(event.key, event)) event.preventDefault()
  })
}
