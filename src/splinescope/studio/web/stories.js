// Stories: a few sentences, a state to start from, and what to try. `#story=NAME` opens one.

import {element} from "../viewer/words.js"

export const STORIES = [
  {
    name: "fold", title: "How a layer folds space",
    text: ["One layer of ReLU units cuts the plane along straight lines: each unit's fold. A second layer draws straight lines too, but on the folded sheet; unfolded again, they bend wherever they cross a line of the first."],
    tries: ["Move “folds to layer” from 1 to 3 (keys 1 to 3) and watch each line bend where it crosses those before it.", "Click a fold, then drag it: deeper folds follow."],
    recipe: {data: "circles", depth: 3, width: 8, seed: 4}, look: {color: "folds", layers: 1, hide: "boundary"},
  },
  {
    name: "learn", title: "Tiles learn a boundary",
    text: ["The network is one affine map on every tile, so its decision boundary is straight inside each and can only turn at a wall. To follow the data it must bring walls to where turning is needed."],
    tries: ["Watch the red line turn only at walls, and press Pause to look closer.", "Drag a data point across the boundary while it trains."],
    recipe: {data: "moons", depth: 2, width: 10, seed: 1}, look: {color: "class"}, run: true,
  },
  {
    name: "batch-norm", title: "Batch norm finds the data",
    text: ["At the start, many folds of a plain network miss the data altogether. Batch norm moves each unit's fold through the middle of what it sees, layer by layer: before any training, about six times as many tiles lie near these points as without it."],
    tries: ["Switch “normalize” between none and batch norm, and compare “tiles nearby: data”.", "Move “folds to layer” and see which layers fold where.", "Set “start” to “centered on data” without any normalization: the same, done once."],
    curve: "tiles nearby", recipe: {data: "star", depth: 4, width: 16, norm: "batch", noise: 0, seed: 3}, look: {color: "folds"},
  },
  {
    name: "migration", title: "Tiles migrate to the boundary",
    text: ["Training goes on long after every point is right, here from step 100 on. At first tiles crowd where the data are: 24 meet a disc about a point at step 1,000, and 5 one about the boundary. Then the tide turns: at step 3,200, where this story pauses, it is 12 and 14. This recipe was chosen because it shows the effect, and later it ebbs again; with other seeds and sets it may be weak or absent."],
    tries: ["Watch “tiles nearby” cross over at the end.", "Color is slope: at the end the boundary runs through tiles about twice as steep as those that hold the data."],
    curve: "tiles nearby", recipe: {data: "moons", depth: 3, width: 24, optimizer: "adamw", decay: 0.1, rate: 0.003, seed: 1}, look: {color: "slope"}, speed: 25, run: true, until: 3200,
  },
  {
    name: "skip", title: "Why skip connections help",
    text: ["A deep plain network starts almost flat: here its slopes are about a hundred times smaller than with skips, and the gradient that reaches the first layer more than a hundred times, too. With each layer added to its input the signal passes through, and training starts at once."],
    tries: ["Switch “skip connections” off and look at the ends of the color bar.", "Press Play for both and compare the loss after 60 steps: 0.15 with skips, 0.57 without."],
    recipe: {data: "moons", depth: 6, width: 12, skip: true, rate: 0.003, seed: 0}, look: {color: "slope"},
  },
  {
    name: "jitter", title: "Small batches make the boundary tremble",
    text: ["Batch norm uses the mean and variance of the batch at hand. Each batch has others, so in training the folds, and with them the boundary, tremble; the smaller the batch, the more. It acts as noise on the boundary."],
    tries: ["Each picture uses the statistics of another random batch: watch the boundary.", "Raise “batch” to 64 and watch it calm down.", "Set “statistics of” to all data: the network as it is used later."],
    recipe: {data: "moons", depth: 2, width: 12, norm: "batch", batch: 8, statistics: "batch", rate: 0.0001, seed: 5}, look: {color: "class"}, run: true,
  },
  {
    name: "absolute", title: "Origami: absolute values",
    text: ["|x| is the plainest fold of all: the sheet is folded along a line and both halves lie on each other. Here the first layer has two folds at right angles, the mirrors: whatever later layers draw is the same on both sides of each, as in a kaleidoscope."],
    tries: ["Color by “first output” and count the mirror lines.", "Drag a fold of layer 1: every later fold moves, and so does its mirror image.", "Take another seed: mirrors at other angles make other patterns, and two that are not at right angles break each other's symmetry."],
    recipe: {data: "xor", depth: 6, width: 2, activation: "abs", seed: 18455}, look: {color: "folds"},
  },
  {
    name: "norms", title: "One norm or another",
    text: ["Layer, group and RMS norm use the statistics of each point by itself. That is no affine map, so the picture holds their statistics at the mean over the data and says so. Watch where each leaves the folds: with no offsets anywhere, RMS norm keeps them all through one point, as if there were no norm, until training moves them; with batch norm three times as many tiles lie near the data."],
    tries: ["Go through the choices of “normalize”.", "Compare “tiles nearby” before training."],
    curve: "tiles nearby", recipe: {data: "star", depth: 2, width: 24, norm: "rms", init: "zero bias", noise: 0, seed: 1}, look: {color: "folds"},
  },
  {
    name: "smooth", title: "Smooth activations, within a tolerance",
    text: ["GELU, SiLU and tanh have no folds, and so no tiles. Replace each by straight pieces, fine enough that no output is off by more than a tolerance anywhere in the square, and the tiles of that network are exact: each unit now folds at every knot. The badge says what is proven."],
    tries: ["Change “within” from 0.03 to 0.01: three times the precision takes about 1.7 times the folds.", "Switch the activation back to ReLU: one fold a unit.", "Click a fold: all parallel folds of its unit light up."],
    recipe: {data: "moons", depth: 1, width: 6, activation: "gelu", tolerance: 0.03, seed: 2}, look: {color: "value"},
  },
  {
    name: "uniform", title: "Sampling a generator uniformly", scene: "uniform",
    text: ["A generator stretches some tiles of its latent square more than others: each becomes a flat facet of its surface, and evenly spread latents are thin on facets that were stretched. Weight latents by the volume factor √det(AᵀA) of their tile to the power ρ. At ρ = 0 samples follow the generator's own law; at ρ = 1 they are uniform on the surface. Tiles, factors and samples are exact."],
    tries: ["Move ρ from 0 to 1: latents crowd where the surface is steep, samples on it even out.", "“Densest facet over sparsest” ends at 1.", "Take another seed for another generator."],
  },
  {
    name: "odd-point", title: "The odd point", scene: "odd",
    text: ["A batch of 24 points goes through random layers that do one half of batch norm (each unit is recentered over the batch) and then ReLU. Layer by layer, 23 points gather in one direction while a single one, the odd point, grows twenty times as long as the others and ends at right angles to them. The other half, rescaling each unit, takes that back: with it no point stands out for long."],
    tries: ["Press Play and watch the cluster shrink beside the odd point.", "Another seed makes another point the odd one; now and then it takes more layers."],
  },
  {
    name: "ellipse", title: "Neurons on the ellipse", scene: "ellipse",
    text: ["With batch norm only the direction of a neuron's weights counts, so the neurons of a two-layer network live on an ellipse, bᵀSb = 1 for the covariance S of the data. Here the first coordinate has five times the variance, so the ellipse is narrow along the first axis. Training moves neurons along it, like particles: color is the sign of a neuron's output weight, size its amount. The target is ReLU of the first coordinate."],
    tries: ["Press Play: neurons near the tips, above and below, turn to the flat sides, where the first axis ends: about half are within 30° of them at first, 80% at the end.", "Most of it happens in the first steps: go through them slowly."],
  },
]

export function keepStories({choices, scenes}) { // those whose recipe can be made here, or whose scene was recorded
  const made = ({recipe, scene}) => scene ? scenes.includes(scene) : Object.entries(choices).every(([name, list]) => !(name in recipe) || list.includes(recipe[name]))
  STORIES.splice(0, STORIES.length, ...STORIES.filter(made))
}

export const storyNamed = name => STORIES.find(story => story.name === name)

export function storyPanel(target, story, asked, leave) { // `asked`: the name in the address, which may be no story's
  target.hidden = !story && !asked
  if (target.hidden) return
  const close = element("button", {type: "button", className: "plain", textContent: "Close"})
  close.onclick = leave
  if (!story) {
    target.replaceChildren(element("p", {textContent: `There is no story named “${asked}”. This is the playground.`}),
      element("div", {className: "row"}, close, element("a", {href: "#view=stories", textContent: "All stories →"})))
    return
  }
  const at = STORIES.indexOf(story), next = STORIES[(at + 1) % STORIES.length]
  target.replaceChildren(element("h3", {textContent: story.title}), ...story.text.map(text => element("p", {textContent: text})),
    element("p", {}, element("b", {textContent: "Try: "})), element("ul", {}, ...story.tries.map(text => element("li", {textContent: text}))),
    element("div", {className: "row"}, close, element("a", {href: `#story=${next.name}`, textContent: `Next: ${next.title} →`})))
}

export function storyShelf(target) {
  target.replaceChildren(element("h1", {textContent: "Stories"}), element("p", {className: "muted", textContent: "Each opens in a state worth looking at. Links to a story work for everyone who runs the studio."}),
    element("div", {className: "cards"}, ...STORIES.map(story => element("a", {className: "card", href: `#story=${story.name}`}, element("img", {src: new URL(`story-${story.name}.webp`, import.meta.url).href, alt: "", width: 320, height: 200}), element("h2", {textContent: story.title}), element("p", {textContent: story.text[0]})))))
}
