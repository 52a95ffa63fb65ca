// Which view is shown, and its settings: all in the part of the address after `#`, so a link leads to the same picture.

import { useEffect, useState } from "./html.js";
import { encoded } from "./text.js";

/** @typedef {{path: string[], settings: URLSearchParams}} Route */

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), settings: new URLSearchParams(query) };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * A link within the page. It always begins with `#/`, so no name can turn it into another kind of address.
 * @param {string[]} path
 * @param {Record<string, string>} [settings] empty ones are left out
 */
export function link(path, settings = {}) {
  const query = new URLSearchParams(Object.entries(settings).filter(([, value]) => value !== ""));
  const text = query.toString();
  return `#/${path.map(encoded).join("/")}${text ? `?${text}` : ""}`;
}

/** Change a setting of the view that is shown, without a step in the history.
 * @param {Record<string, string>} changes
 */
export function changeSettings(changes) {
  const { path, settings } = parseRoute(location.hash);
  const merged = { ...Object.fromEntries(settings), ...changes };
  history.replaceState(null, "", link(path, merged));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** @returns {Route} */
export function useRoute() {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const listener = () => setRoute(parseRoute(location.hash));
    window.addEventListener("hashchange", listener);
    return () => window.removeEventListener("hashchange", listener);
  }, []);
  return route;
}
