// The microscope's view of three directions at once: the 3-D explorer of pages, in place of the panes.

import {exploreSpace} from "../viewer/space_panel.js"

export class Space {
  constructor(root) { Object.assign(this, {root, view: null, body: null}) }

  async show(frame) { // a view of its own for every tiling: camera and plane belong to what is seen
    this.body ??= await (await fetch(new URL("../viewer/space.html", import.meta.url))).text()
    this.root.innerHTML = this.body // of the package, not of a file
    this.root.hidden = false
    this.view = exploreSpace(this.root, frame)
    this.root.querySelector("h1").textContent = frame.title
  }

  hide() {
    this.root.hidden = true
    this.root.replaceChildren()
    this.view = null
  }
}
