// The one store and the one connection of the page, and how views follow them.

import { Connection } from "./connection.js";
import { useEffect, useReducer, useRef, useState } from "./html.js";
import { Store } from "./store.js";

export const store = new Store();
export const connection = new Connection(store);

/** Draw the view again whenever the cluster changed. */
export function useStore() {
  const [, draw] = useReducer((/** @type {number} */ n) => n + 1, 0);
  useEffect(() => store.subscribe(() => draw(undefined)), []);
  return store;
}

export function useConnection() {
  const [status, setStatus] = useState(connection.status);
  useEffect(() => {
    setStatus(connection.status);
    return connection.subscribe(() => setStatus(connection.status));
  }, []);
  return status;
}

/**
 * A document of the API. It is fetched again when `version` is another value or the page has connected again, at most
 * once in `pause` milliseconds, and the old one is shown until then.
 * @template T
 * @param {string} path
 * @param {unknown} version
 * @param {number} [pause]
 * @returns {{document: T | null, error: import("./connection.js").ApiError | null}}
 */
export function useDocument(path, version, pause = 1000) {
  const [state, setState] = useState(/** @type {any} */ ({ path, document: null, error: null }));
  const last = useRef(0);
  useConnection();
  useEffect(() => {
    const control = new AbortController();
    const wait = state.path === path && state.document ? Math.max(0, last.current + pause - performance.now()) : 0;
    const timer = setTimeout(() => {
      last.current = performance.now();
      connection.document(path, { signal: control.signal }).then(
        (document) => setState({ path, document, error: null }),
        (error) => {
          // What is known stays while the server is away; that it has gone is news.
          if (control.signal.aborted) return;
          setState((/** @type {any} */ old) => ({
            path, document: old.path === path && error.status !== 404 ? old.document : null, error,
          }));
        },
      );
    }, wait);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [path, version, connection.returns]);
  return state.path === path ? state : { document: null, error: null };
}
