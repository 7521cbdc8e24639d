// The page's line to the server: requests with numbers, answers, progress and frames.

import {unpack} from "/viewer/frame.js"

export const token = new URLSearchParams(location.search).get("token") ?? ""

export class Channel extends EventTarget {
  constructor() {
    super()
    this.waiting = new Map()
    this.next = 1
    this.queue = []
    this.connect()
  }

  connect() {
    const socket = this.socket = new WebSocket(`ws://${location.host}/channel?token=${encodeURIComponent(token)}`)
    socket.binaryType = "arraybuffer"
    socket.onopen = () => {
      this.tell("open")
      for (const text of this.queue.splice(0)) socket.send(text)
    }
    socket.onmessage = event => this.take(event.data)
    socket.onclose = () => {
      for (const {reject} of this.waiting.values()) reject(new Error("the connection was lost"))
      this.waiting.clear()
      this.tell("closed")
      setTimeout(() => this.connect(), 1000)
    }
  }

  tell(name, detail) { this.dispatchEvent(new CustomEvent(name, {detail})) }

  take(data) {
    const message = typeof data === "string" ? JSON.parse(data) : unpack(data)
    if (message.fatal) return this.tell("failure", message.fatal)
    if (message.playground === "error") return this.tell("failure", message.error)
    const request = this.waiting.get(message.id)
    if (!request) return this.tell(typeof data === "string" ? "note" : "frame", message)
    if ("progress" in message) return request.progress?.(message.progress, message.now)
    this.waiting.delete(message.id)
    if ("error" in message) request.reject(Object.assign(new Error(message.error), {cancelled: message.cancelled}))
    else request.resolve(message.answer ?? message)
  }

  send(message) {
    const text = JSON.stringify(message)
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text)
    else this.queue.push(text)
  }

  order(name, rest = {}) { this.send({do: "playground", order: name, ...rest}) }

  ask(what, rest = {}, progress) { // a promise of the answer, with `cancel()`
    const id = this.next++
    const promise = new Promise((resolve, reject) => this.waiting.set(id, {resolve, reject, progress}))
    this.send({id, do: what, ...rest})
    promise.cancel = () => this.send({do: "cancel", job: id})
    return promise
  }
}
