// The studio's page: which view is open, the theme, and what goes wrong.

import {Channel, LocalChannel} from "./channel.js"
import {PlaygroundPage} from "./playground.js"
import {MicroscopePage} from "./microscope.js"
import {ScenePage} from "./scene.js"
import {readState, writeState} from "./state.js"
import {keepStories, storyNamed, storyShelf} from "./stories.js"

const $ = id => document.getElementById(id), VIEWS = ["playground", "stories", "microscope", "scene"]
const alone = document.documentElement.dataset.engine === "worker" // files without a server
const channel = alone ? new LocalChannel() : new Channel(), pages = {}
const asked = new URLSearchParams(location.search), root = document.documentElement
if (asked.has("embed")) document.body.classList.add("embed")

// ---- for a lecture: large, with the story and one curve alone

function lecture(on) {
  root.classList.toggle("lecture", on)
  $("lecture").setAttribute("aria-pressed", String(on))
  $("lecture").textContent = on ? "Leave" : "Lecture"
  writeState({lecture: on && !asked.has("lecture") ? 1 : null})
  for (const page of Object.values(pages)) page.setBold(on ? 2 : 1)
}
const bold = () => root.classList.contains("lecture") ? 2 : 1
$("lecture").onclick = () => lecture(!root.classList.contains("lecture"))

const PLAYS = {playground: "play", scene: "scene-play"} // what the space bar presses
const TYPED = "input, select, textarea, dialog *" // keys are theirs
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest(TYPED)) return
  if (event.key === "l" || event.key === "L") lecture(!root.classList.contains("lecture"))
  else if (event.key === " " && PLAYS[document.body.dataset.view] && !event.target.closest("button, a")) $(PLAYS[document.body.dataset.view]).click()
  else if (/^[1-6]$/.test(event.key) && document.body.dataset.view === "playground") pages.playground.showLayers(Number(event.key))
  else return
  event.preventDefault()
})

// ---- theme

if (["light", "dark"].includes(readState().theme)) document.documentElement.dataset.theme = readState().theme
const dark = matchMedia("(prefers-color-scheme: dark)")
function paintTheme() {
  const chosen = document.documentElement.dataset.theme
  $("theme").textContent = (chosen ?? (dark.matches ? "dark" : "light")) === "dark" ? "☀" : "☾"
  for (const page of Object.values(pages)) page.retheme?.()
}
$("theme").onclick = () => {
  const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")
  const theme = document.documentElement.dataset.theme = now === "dark" ? "light" : "dark"
  writeState({theme: theme === (dark.matches ? "dark" : "light") ? null : theme})
  paintTheme()
}
dark.addEventListener("change", paintTheme)

// ---- views

async function open() {
  const state = readState(), story = storyNamed(state.story), shown = alone ? VIEWS.slice(0, 2) : VIEWS.slice(0, 3), view = story ? (story.scene ? "scene" : "playground") : shown.includes(state.view) ? state.view : "playground"
  for (const name of VIEWS) $(name).hidden = name !== view
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (story ? "stories" : view)) link.setAttribute("aria-current", "page")
    else link.removeAttribute("aria-current")
  }
  if (view !== "playground") pages.playground?.pause()
  if (view !== "scene") pages.scene?.pause()
  if (view === "stories") storyShelf($("stories"))
  $("message").hidden = true
  if (view === "scene") { (pages.scene ??= new ScenePage(channel)).setBold(bold()); pages.scene.open(state, story, complain) }
  if (view === "playground") pages.playground.open(state, story)
  if (view === "microscope") { (pages.microscope ??= new MicroscopePage(channel)).setBold(bold()); await pages.microscope.open(state) }
  document.body.dataset.view = view
}

function complain(text) {
  pages.playground?.setRunning(false, false)
  $("starting").hidden = true
  $("message").textContent = text
  $("message").hidden = false
}

channel.addEventListener("failure", event => complain(event.detail))
channel.addEventListener("note", event => { if (event.detail.error) complain(event.detail.error) })
channel.addEventListener("closed", () => { document.body.dataset.connection = "lost"; complain("The connection to the server was lost. If it was started again, open the new address that it printed.") })
channel.addEventListener("open", () => { document.body.dataset.connection = "open"; $("message").hidden = true })

const limits = await channel.ask("limits")
if (alone) {
  document.querySelector("[data-view=microscope]").remove()
  keepStories(limits)
}
pages.playground = new PlaygroundPage(channel, limits)
window.studio = {channel, pages}
paintTheme()
if (asked.has("lecture") || readState().lecture) lecture(true)
window.addEventListener("hashchange", open)
await open()
document.body.dataset.ready = "yes"
