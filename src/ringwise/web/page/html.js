// preact and htm as the views use them.

import htm from "./vendor/htm.js";
import { h, render } from "./vendor/preact.js";
import { useEffect, useErrorBoundary, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/preact-hooks.js";
import { visible } from "./text.js";

/**
 * @param {unknown} child
 * @returns {any}
 */
function shown(child) {
  if (typeof child === "string") return visible(child);
  return Array.isArray(child) ? child.map(shown) : child;
}

/** Attributes that a reader sees or hears. */
const READ = ["title", "aria-label", "aria-description", "aria-valuetext", "placeholder", "alt"];

/**
 * Markup as a template. Every text passes `visible` here, so no view can forget it; markup in a text stays text.
 */
export const html = htm.bind((/** @type {any} */ type, /** @type {any} */ attributes, /** @type {any[]} */ ...children) => {
  if (attributes && typeof type === "string") {
    for (const name of READ) {
      if (typeof attributes[name] === "string") attributes[name] = visible(attributes[name]);
    }
  }
  return h(type, attributes, ...children.map(shown));
});

export { render, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useReducer, useRef, useState };
