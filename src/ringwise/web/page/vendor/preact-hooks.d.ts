export function useEffect(effect: () => void | undefined | (() => void), inputs?: readonly unknown[]): void;
export function useErrorBoundary(): [unknown, () => void];
export function useLayoutEffect(effect: () => void | undefined | (() => void), inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useReducer<S, A>(reducer: (state: S, action: A) => S, initial: S): [S, (action: A) => void];
export function useRef<T>(initial: T): { current: T };
export function useState<S>(initial: S | (() => S)): [S, (next: S | ((old: S) => S)) => void];
