// Requests to the service, the API key, and what is asked for again and again.
import { useCallback, useEffect, useRef, useState } from "./htm-preact.js";

const KEY = "sirocco-key";
const EVERY = 5_000, SLOWEST = 10_000, PATIENCE = 15_000;

export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

// What went wrong, in words; status 0 is no answer at all.
export class Failure extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function request(path, { method = "GET", body } = {}) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method, headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) };
  let answer;
  try {
    answer = await fetch(path, { ...options, body: body && JSON.stringify(body) });
  } catch (error) {
    throw new Failure(0, "the service does not answer");
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Failure(answer.status, content.detail || answer.statusText);
  return content;
}

export const post = (path, body = {}) => request(path, { method: "POST", body });

// The answer of a path, asked for again every few seconds while the page is seen, and less often
// while it fails; the last answer stays, and with `keep` also that of another path until this one answers.
export function usePolled(path, every = EVERY, keep = false) {
  const [state, setState] = useState({});
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const pause = useRef(every);
  useEffect(() => {
    let timer = 0, over = false, waits = false;
    const ask = async () => {
      if (document.hidden) { waits = true; return; }
      try {
        const data = await request(path);
        pause.current = every;
        if (!over) setState({ path, data, at: Date.now() });
      } catch (error) {
        pause.current = Math.min(2 * pause.current, SLOWEST);
        if (!over) setState((before) => ({ ...(keep || before.path === path ? before : {}), path, error }));
      }
      if (!over && every) timer = setTimeout(ask, pause.current);
    };
    const shown = () => { if (waits && !document.hidden) { waits = false; ask(); } };
    document.addEventListener("visibilitychange", shown);
    ask();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [path, every, turn]);
  return { ...(keep || state.path === path ? state : {}), reload };
}
