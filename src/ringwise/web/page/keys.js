// Keys that work on every page, and the list of all keys.

import { html, useEffect, useRef } from "./html.js";
import { link } from "./routes.js";

const KEYS = /** @type {[string, [string, string][]][]} */ ([
  ["On every page", [["/", "search in this view; from a view without a search, in the jobs"], ["?", "show this list"]]],
  ["On the map", [
    ["arrows", "move the cursor to the next group, node or chip"],
    ["Enter", "zoom in: from a group to its nodes, to the chips of a node, to the page of the node"],
    ["Escape, Backspace", "zoom out one level"],
    ["+ and -", "zoom"],
    ["0, Home", "show the whole cluster"],
    ["o", "open the page of the node"],
  ]],
  ["In the what-if", [["Ctrl+Enter", "show where the jobs of the manifest would be placed"]]],
]);

const LIST = "keys-list";

/** The search field of the view that is shown. */
function searchField() {
  return /** @type {HTMLInputElement | null} */ (document.querySelector("main input[type=search]"));
}

/** Whether a key is input for a form field. @param {EventTarget | null} target */
function isWriting(target) {
  return target instanceof Element && target.closest("input:not([type=radio]), textarea, select, dialog") !== null;
}

function keyList() {
  return /** @type {HTMLDialogElement | null} */ (document.getElementById(LIST));
}

export function showKeys() {
  keyList()?.showModal();
}

export function hideKeys() {
  keyList()?.close();
}

/**
 * Follows the keys of every page.
 * @returns {{current: boolean}} whether the view that is opened next is opened for its search field
 */
export function useKeys() {
  const searches = useRef(false);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const onKey = (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
      if (event.key === "?") showKeys();
      else if (event.key !== "/") return;
      else if (!focusSearch()) {
        searches.current = true;
        location.hash = link(["jobs"]);
      }
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return searches;
}

/** @returns {boolean} whether the view has a search field */
export function focusSearch() {
  const field = searchField();
  field?.focus();
  field?.select();
  return field !== null;
}

export function KeyList() {
  return html`<dialog id=${LIST} class="key-list" aria-labelledby="keys-title">
    <h2 id="keys-title">Keys</h2>
    ${KEYS.map(([where, keys]) => html`<h3 key=${where}>${where}</h3>
      <dl class="facts">${keys.map(([key, action]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${action}</dd></div>`)}</dl>`)}
    <button type="button" onClick=${hideKeys}>Close</button>
  </dialog>`;
}
