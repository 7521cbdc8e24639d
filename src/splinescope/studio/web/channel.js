// The page's line to what computes, a server or a worker: requests with numbers, answers, progress and frames.

import {unpack} from "../viewer/frame.js"

export const token = new URLSearchParams(location.search).get("token") ?? ""

class Line extends EventTarget {
  constructor() {
    super()
    this.waiting = new Map()
    this.next = 1
  }

  tell(name, detail) { this.dispatchEvent(new CustomEvent(name, {detail})) }

  take(message) {
    if (message.fatal) return this.tell("failure", message.fatal)
    if (message.playground === "error") return this.tell("failure", message.error)
    const request = this.waiting.get(message.id)
    if (!request) return this.tell(message.vertices || message.file ? "frame" : "note", message)
    if ("progress" in message) return request.progress?.(message.progress, message.now)
    this.waiting.delete(message.id)
    if ("error" in message) request.reject(Object.assign(new Error(message.error), {cancelled: message.cancelled}))
    else request.resolve(message.answer ?? message)
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

export class Channel extends Line { // to the server
  constructor() {
    super()
    this.server = true
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
    socket.onmessage = event => this.take(typeof event.data === "string" ? JSON.parse(event.data) : unpack(event.data))
    socket.onclose = () => {
      for (const {reject} of this.waiting.values()) reject(new Error("the connection was lost"))
      this.waiting.clear()
      if (this.refused) return // and said why
      this.tell("closed")
      setTimeout(() => this.connect(), 1000)
    }
  }

  take(message) {
    if (message.fatal) this.refused = true
    super.take(message)
  }

  send(message) {
    const text = JSON.stringify(message)
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text)
    else this.queue.push(text)
  }
}

export class LocalChannel extends Line { // to a worker of the page's own: nothing leaves it
  constructor() {
    super()
    this.worker = new Worker(new URL("worker.js", import.meta.url), {type: "module"})
    this.worker.onmessage = ({data}) => this.take(data)
    this.worker.onerror = event => this.tell("failure", `This browser cannot run the playground: ${event.message ?? "no module workers"}`)
  }

  send(message) { this.worker.postMessage(message) }
}
