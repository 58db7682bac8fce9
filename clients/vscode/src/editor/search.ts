import { type QuickPickItem, window } from "vscode";

import { type Hit, Search, titleOf } from "../core/index.js";
import { complain, type Services } from "./services.js";
import { show } from "./show.js";

const PAUSE_MS = 120;

interface Found extends QuickPickItem {
  hit?: Hit;
}

/** Search in all sessions while the person types, and show the hit that the person picks. */
export function searchSessions(services: Services): void {
  const pick = window.createQuickPick<Found>();
  const search = new Search(services.connection);
  let timer: NodeJS.Timeout | undefined;
  pick.placeholder = "Words, and phrases in double quotes, in all sessions";
  pick.onDidChangeValue((query) => {
    clearTimeout(timer);
    pick.busy = true;
    timer = setTimeout(() => void ask(query), PAUSE_MS);
  });
  pick.onDidAccept(() => {
    const hit = pick.selectedItems[0]?.hit;
    if (hit === undefined) return;
    pick.hide();
    show(services, hit.session_id, hit.entry_id === null ? {} : { seq: hit.seq }).catch(complain);
  });
  pick.onDidHide(() => {
    clearTimeout(timer);
    search.stop();
    pick.dispose();
  });
  pick.show();

  async function ask(query: string): Promise<void> {
    try {
      const hits = await search.ask(query);
      if (hits === undefined) return;
      pick.items = hits.map(itemOf);
    } catch (error) {
      pick.items = [];
      void complain(error);
    }
    pick.busy = false;
  }

  function itemOf(hit: Hit): Found {
    const info = services.list.sessions.find((one) => one.id === hit.session_id);
    // The daemon has decided what fits: the item need not have the words of the question.
    const description = info === undefined ? hit.session_id : titleOf(info);
    return { label: hit.snippet || "(header)", description, alwaysShow: true, hit };
  }
}
