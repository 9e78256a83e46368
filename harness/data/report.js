"use strict";
// Shows the episodes of a run. Whatever comes from the run goes onto the page as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const episodes = data.episodes;
  const stories = data.stories;
  const PAGE = 200;
  const LONG = 900;
  const FIELDS = 6;

  const byId = (id) => document.getElementById(id);
  const has = (object, key) => Object.prototype.hasOwnProperty.call(object, key);

  function el(tag, className, ...children) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const child of children) {
      if (child === null || child === undefined) continue;
      node.append(child instanceof Node ? child : String(child));
    }
    return node;
  }

  const outcome = (episode) =>
    episode.status === "invalid" || episode.status === "infra" ? episode.status : episode.passed ? "passed" : "failed";
  const total = (episode) => (episode.score === null ? "-" : episode.score.total.toFixed(2));

  // ---------------------------------------------------------------- theme
  function startTheme() {
    const dark = () => {
      const chosen = document.documentElement.dataset.theme;
      return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    };
    byId("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
    });
  }

  // ---------------------------------------------------------------- list
  const texts = new Map();
  function searchable(episode) {
    if (!texts.has(episode.key)) {
      const story = has(stories, episode.key) ? JSON.stringify(stories[episode.key]) : "";
      texts.set(episode.key, (JSON.stringify(episode) + story).toLowerCase());
    }
    return texts.get(episode.key);
  }

  let shown = [];
  let limit = PAGE;
  let current = null;

  function fill(select, values) {
    for (const value of values) {
      const option = el("option", "", value);
      option.value = value;
      select.append(option);
    }
  }

  function filter() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const agent = byId("agent").value;
    const family = byId("family").value;
    const wanted = byId("outcome").value;
    shown = episodes.filter(
      (episode) =>
        (!agent || episode.agent === agent) &&
        (!family || episode.family === family) &&
        (!wanted || outcome(episode) === wanted || episode.status === wanted) &&
        words.every((word) => searchable(episode).includes(word)),
    );
    limit = PAGE;
    list();
  }

  function list() {
    const place = byId("episodes");
    const rows = [];
    let group = null;
    for (const episode of shown.slice(0, limit)) {
      if (episode.environment !== group) rows.push(el("li", "group", episode.environment));
      group = episode.environment;
      rows.push(entry(episode));
    }
    place.replaceChildren(...rows);
    if (shown.length > limit) {
      const more = el("button", "more", `Show ${Math.min(PAGE, shown.length - limit)} more`);
      more.type = "button";
      more.addEventListener("click", () => {
        limit += PAGE;
        list();
      });
      place.append(el("li", "", more));
    }
    const noun = episodes.length === 1 ? "episode" : "episodes";
    byId("count").textContent = `${shown.length.toLocaleString("en")} of ${episodes.length.toLocaleString("en")} ${noun}`;
  }

  function entry(episode) {
    const told = has(stories, episode.key) ? `${episode.calls} calls` : "not in this file";
    const button = el(
      "button",
      "",
      el("span", `dot ${outcome(episode)}`),
      el("span", "id", `${episode.agent} ${episode.trial}`),
      el("span", "sub", told),
      el("span", "num", total(episode)),
    );
    button.type = "button";
    button.title = `${episode.environment} by ${episode.agent}: ${outcome(episode)}`;
    button.setAttribute("aria-current", String(episode.key === current));
    button.addEventListener("click", () => open(episode.key));
    return el("li", "", button);
  }

  // ---------------------------------------------------------------- one episode
  function open(key, remember = true) {
    const episode = episodes.find((one) => one.key === key);
    if (!episode) return;
    current = key;
    list();
    reveal(document.querySelector('#episodes [aria-current="true"]'));
    const parts = [head(episode)];
    if (has(stories, key)) {
      const story = stories[key];
      parts.push(el("div", "pair", requestCard(story), checksCard(story)), timeline(story, episode));
    } else {
      parts.push(
        el("p", "note", `The transcript of this episode is not in this file. Its record is episodes/${key}.json in the run's directory.`),
      );
    }
    byId("detail").replaceChildren(...parts);
    if (remember) history.replaceState(null, "", `#${encodeURIComponent(key)}`);
  }

  function reveal(button) {
    // Not scrollIntoView: it would scroll the page as well.
    const place = byId("episodes");
    if (!button) return;
    const top = button.offsetTop;
    if (top < place.scrollTop || top + button.offsetHeight > place.scrollTop + place.clientHeight) {
      place.scrollTop = top - place.clientHeight / 3;
    }
  }

  function head(episode) {
    const state = outcome(episode);
    const title = el(
      "div",
      "title",
      el("h2", "", episode.environment),
      el("span", `badge ${state}`, state),
      episode.score !== null && !episode.score.gate ? el("span", "badge failed", "a guard was broken: gate closed") : null,
      episode.truncated ? el("span", "badge invalid", "cut short") : null,
    );
    const siblings = el("div", "siblings", el("small", "", "same environment:"));
    for (const other of episodes.filter((one) => one.environment === episode.environment)) {
      const button = el("button", "", el("span", `dot ${outcome(other)}`), `${other.agent} ${other.trial} · ${total(other)}`);
      button.type = "button";
      button.setAttribute("aria-current", String(other.key === episode.key));
      button.addEventListener("click", () => open(other.key));
      siblings.append(button);
    }
    const tokens = episode.tokens[0] + episode.tokens[1];
    const facts = [
      `agent ${episode.agent}`,
      `trial ${episode.trial}`,
      `family ${episode.family}`,
      episode.level === null ? null : `level ${episode.level}`,
      `ended by ${episode.reason}`,
      `${episode.steps} messages`,
      `${episode.calls} calls, ${episode.refused} refused`,
      tokens ? `${tokens.toLocaleString("en")} tokens` : null,
      episode.cost ? `$${episode.cost.toFixed(4)}` : null,
    ].filter(Boolean);
    const line = el("div", "facts-line", ...facts.map((fact) => el("span", "", fact)));
    return el("div", "card head", title, line, siblings, episode.score === null ? null : meters(episode.score));
  }

  function meters(score) {
    const names = ["total", "completion", "constraint", "communication", "robustness", "efficiency"];
    const row = el("div", "meters");
    for (const name of names) {
      const meter = el("div", `meter ${name}`, el("span", "", name, el("b", "", score[name].toFixed(2))), el("i", ""));
      meter.style.setProperty("--value", `${100 * score[name]}%`);
      row.append(meter);
    }
    return row;
  }

  function requestCard(story) {
    return el(
      "div",
      "card",
      el("h2", "", "Request"),
      el("div", "request", story.request),
      el("div", "briefing", story.briefing),
    );
  }

  function checksCard(story) {
    const icons = { PASS: "✓", FAIL: "✗", ERROR: "!" };
    const failed = story.checks.filter((check) => check.verdict !== "PASS").length;
    const count = story.checks.length - failed;
    const items = story.checks.map((check) =>
      el(
        "li",
        check.verdict,
        el("span", "icon", icons[check.verdict]),
        el("span", "about", check.about || check.id),
        el("span", "meta", `${check.guard ? "guard · " : ""}${check.kind}`),
        check.detail && check.verdict !== "PASS" ? why(check) : null,
      ),
    );
    return el("div", "card", el("h2", "", "Checks", el("small", "", `${count} of ${story.checks.length} hold`)), el("ol", "checks", ...items));
  }

  function why(check) {
    const node = el("span", "why", check.detail);
    node.title = `${check.id}: ${check.detail}`;
    node.addEventListener("click", () => node.classList.toggle("whole"));
    return node;
  }

  // ---------------------------------------------------------------- timeline
  function timeline(story, episode) {
    const begin = Date.parse(story.begin);
    const columns = el(
      "div",
      "columns",
      el("span", "", "time, UTC"),
      el("span", "", "what was said and called"),
      el("span", "", "what changed in the workplace"),
    );
    const steps = story.steps.map((step) => show(step, begin));
    const end = el("p", "end", `The episode ended: ${episode.reason}${episode.truncated ? ", cut short" : ""}.`);
    return el("div", "card timeline", el("h2", "", "Timeline"), columns, ...steps, end);
  }

  function show(step, begin) {
    const [left, right] = { say, user, call, event }[step.kind](step);
    return el("div", `step ${step.kind}`, when(step.at, begin), left, right);
  }

  function when(at, begin) {
    const seconds = Math.round((Date.parse(at) - begin) / 1000);
    const days = Math.floor(seconds / 86400);
    const pad = (number) => String(number).padStart(2, "0");
    const clock = `${Math.floor((seconds % 86400) / 3600)}:${pad(Math.floor((seconds % 3600) / 60))}:${pad(seconds % 60)}`;
    const node = el("div", "when", at.slice(11, 19), el("small", "", days ? `+${days} d ${clock}` : `+${clock}`));
    node.title = at;
    return node;
  }

  function say(step) {
    return [el("div", "", el("div", "who", "agent, to the user"), el("div", "text", step.text)), el("div", "")];
  }

  function user(step) {
    return [el("div", "", el("div", "who", "user"), el("div", "text", step.text)), el("div", "")];
  }

  function call(step) {
    const left = el("div", "", el("div", "tool", step.tool), pairs(step.arguments));
    if (!has(step, "result")) left.append(el("div", "refusal", "no answer: the episode was cut here"));
    else if (step.error) left.append(el("div", "refusal", step.result));
    else left.append(result(step.result));
    for (const notice of step.notices || []) left.append(el("div", "notice", notice));
    return [left, changes(step.changes)];
  }

  function event(step) {
    const loud = step.notice !== null;
    const people = [...new Set(step.acts.map((act) => act.person))].join(", ");
    const left = el(
      "div",
      "",
      el("div", "who", `meanwhile: ${people}`, el("span", "badge event", loud ? "loud" : "silent"), el("small", "", step.event || "")),
    );
    for (const act of step.acts) {
      const node = el("div", "act", el("div", "tool", act.tool), pairs(act.arguments));
      if (act.error) node.append(el("div", "refusal", act.error));
      left.append(node);
    }
    if (loud) left.append(el("div", "told", `The agent is told: ${step.notice}`));
    return [left, changes(step.acts.flatMap((act) => act.changes))];
  }

  function changes(list) {
    if (!list.length) return el("div", "nothing", "nothing changed");
    return el("div", "", ...list.map(change));
  }

  function change(one) {
    const what = el("div", "what", el("span", "op", one.operation), el("span", "mono", one.type), el("span", "key", one.key));
    const box = el("div", `change ${one.operation}`, what, fields(one, one.fields.slice(0, FIELDS)));
    const rest = one.fields.slice(FIELDS);
    if (rest.length) {
      box.append(el("details", "", el("summary", "more", `${rest.length} more fields`), fields(one, rest)));
    }
    return box;
  }

  function fields(one, list) {
    const node = el("dl", "args");
    for (const [name, before, after] of list) {
      const value = el("dd", "");
      if (one.operation !== "created") value.append(el("span", "was", plain(before)));
      if (one.operation === "updated") value.append(el("span", "arrow", "→"));
      if (one.operation !== "deleted") value.append(el("span", "now", plain(after)));
      node.append(el("dt", "", name), value);
    }
    return node;
  }

  function plain(value) {
    if (value === null || value === undefined) return "none";
    if (typeof value === "string") return value === "" ? "(empty)" : value;
    if (Array.isArray(value) && value.length && value.every((item) => item !== null && typeof item !== "object")) return value.join(", ");
    return JSON.stringify(value);
  }

  function pairs(object) {
    const node = el("dl", "args");
    for (const [name, value] of Object.entries(object)) {
      const text = plain(value);
      const place = el("dd", "", text.length > LONG ? text.slice(0, LONG) : text);
      if (text.length > LONG) place.append(el("details", "", el("summary", "", "the rest"), el("pre", "", text.slice(LONG))));
      node.append(el("dt", "", name), place);
    }
    return node;
  }

  function result(text) {
    let pretty = text;
    try {
      pretty = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // Not JSON: shown as it is.
    }
    const box = el("details", "", el("summary", "", text.slice(0, 240) || "(empty)"));
    box.addEventListener("toggle", () => {
      if (box.open && box.childElementCount === 1) box.append(el("pre", "", pretty));
    });
    return box;
  }

  // ---------------------------------------------------------------- start
  function move(distance) {
    const position = shown.findIndex((episode) => episode.key === current);
    const next = shown[Math.min(shown.length - 1, Math.max(0, position + distance))];
    if (next) open(next.key);
  }

  function fromAddress() {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  }

  startTheme();
  fill(byId("agent"), [...new Set(episodes.map((one) => one.agent))].sort());
  fill(byId("family"), [...new Set(episodes.map((one) => one.family))].sort());
  fill(byId("outcome"), ["passed", "failed", "invalid", "infra"]);
  for (const id of ["search", "agent", "family", "outcome"]) byId(id).addEventListener("input", filter);
  document.addEventListener("keydown", (press) => {
    if (press.target instanceof HTMLInputElement || press.target instanceof HTMLSelectElement) return;
    if (press.ctrlKey || press.metaKey || press.altKey) return;
    if (press.key === "j" || press.key === "k") move(press.key === "j" ? 1 : -1);
    if (press.key === "/") {
      press.preventDefault();
      byId("search").focus();
    }
  });
  window.addEventListener("hashchange", () => open(fromAddress(), false));
  filter();
  const asked = episodes.find((one) => one.key === fromAddress());
  const first = asked || episodes.find((one) => outcome(one) === "failed" && one.calls > 0 && has(stories, one.key)) || episodes.find((one) => has(stories, one.key)) || episodes[0];
  if (first) open(first.key, false);
})();
