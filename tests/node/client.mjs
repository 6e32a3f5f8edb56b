// The official client, unmodified, against the platform: the whole life of a job on two bases by two tenants at once, and the edges that
// clients meet: retries, cut streams, hostile ids. One line a check, as tests/main_paths.sh has them.
//   node client.mjs BASE_URL KEY OTHER_KEY STATE
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import OpenAI, { toFile } from 'openai';

const [baseURL, key, otherKey, state] = process.argv.slice(2);
const log = `${state}.log`;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-client-'));
const names = ['Ada', 'Ben', 'Cleo', 'Dora', 'Eve', 'Finn', 'Gus', 'Hal', 'Ivy', 'Jon', 'Kit', 'Lou'];
const settled = ['succeeded', 'failed', 'cancelled'];

async function check(name, act) {
    try {
        await act();
        console.log(`ok client: ${name}`);
    } catch (error) {
        console.log(`not ok client: ${name}: ${String(error.stack).split('\n').slice(0, 8).join(' | ')}`);
    }
}

const client = (apiKey, more = {}) => new OpenAI({ baseURL, apiKey, ...more });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const lines = (answer) => names.map((name) => JSON.stringify({ messages: [
    { role: 'user', content: `Who is ${name}?` }, { role: 'assistant', content: answer(name) }] })).join('\n') + '\n';

async function everything(page) {
    const all = [];
    for await (const one of page) all.push(one);
    return all;
}

async function ended(openai, id) {
    for (let tries = 0; tries < 300; tries++) {
        const job = await openai.fineTuning.jobs.retrieve(id);
        if (settled.includes(job.status)) return job;
        await sleep(200);
    }
    throw new Error(`job ${id} does not end`);
}

const tenants = [
    { openai: client(key), base: 'tiny', who: 'one', answer: (name) => `Arr, ${name}, matey!` },
    { openai: client(otherKey), base: 'tiny-b', who: 'other', answer: (name) => `Dear ${name} says moo.` },
];

async function train({ openai, base, who, answer }) {
    const file = path.join(folder, `${who} "half" ü.jsonl`);
    fs.writeFileSync(file, lines(answer));
    const sent = await openai.files.create({ file: fs.createReadStream(file), purpose: 'fine-tune' });
    assert.equal(sent.filename, path.basename(file));
    const ready = await openai.files.waitForProcessing(sent.id, { pollInterval: 100 });
    assert.equal(ready.status, 'processed');
    assert.equal(await (await openai.files.content(sent.id)).text(), lines(answer));
    assert.ok((await everything(openai.files.list({ limit: 2 }))).some((one) => one.id === sent.id));
    const job = await openai.fineTuning.jobs.create({ model: base, training_file: sent.id, validation_file: sent.id, suffix: who, seed: 7,
        metadata: { team: who }, method: { type: 'supervised', supervised: { hyperparameters: { n_epochs: 10, batch_size: 2 } } } });
    assert.match(job.id, /^ftjob-/);
    assert.ok(['validating_files', 'queued', 'running'].includes(job.status), job.status);
    assert.equal(job.error, null);
    return { sent, job: await ended(openai, job.id) };
}

async function lifeOfAJob(tenant) {
    const { openai, base, who, answer } = tenant;
    await check(`${who}: a job from upload to model`, async () => {
        Object.assign(tenant, await train(tenant));
        assert.equal(tenant.job.status, 'succeeded', JSON.stringify(tenant.job.error));
        tenant.model = tenant.job.fine_tuned_model;
        assert.match(tenant.model, new RegExp(`^ft:${base}:[^:]+:${who}:`));
        assert.ok(tenant.job.trained_tokens > 0 && tenant.job.finished_at >= tenant.job.created_at);
        assert.equal(tenant.job.hyperparameters.n_epochs, 10);
    });
    if (!tenant.model) return;
    await check(`${who}: jobs, by page and by metadata`, async () => {
        assert.equal((await everything(openai.fineTuning.jobs.list({ limit: 1, metadata: { team: who } }))).length, 1);
        assert.equal((await everything(openai.fineTuning.jobs.list({ metadata: { team: 'nobody' } }))).length, 0);
    });
    await check(`${who}: events, newest first, by pages of three`, async () => {
        const events = await everything(openai.fineTuning.jobs.listEvents(tenant.job.id, { limit: 3 }));
        assert.equal(new Set(events.map((event) => event.id)).size, events.length);
        assert.equal(events.at(-1).message, `Created fine-tuning job: ${tenant.job.id}`);
        assert.ok(events.some((event) => event.message === `New fine-tuned model created: ${tenant.model}`));
        assert.ok(events.some((event) => event.type === 'metrics' && event.data.train_loss > 0 && event.data.step > 0));
        assert.ok(events.every((event, i) => i === 0 || events[i - 1].created_at >= event.created_at));
    });
    await check(`${who}: checkpoints of the last epochs, which answer`, async () => {
        const checkpoints = await everything(openai.fineTuning.jobs.checkpoints.list(tenant.job.id));
        assert.ok(checkpoints.length >= 2, `${checkpoints.length}`);
        assert.equal(checkpoints[0].fine_tuned_model_checkpoint, `${tenant.model}:ckpt-step-${checkpoints[0].step_number}`);
        const said = await openai.chat.completions.create({ model: checkpoints[0].fine_tuned_model_checkpoint, temperature: 0,
            messages: [{ role: 'user', content: 'Who is Ada?' }] });
        assert.ok(said.choices[0].message.content.length > 0);
    });
    await check(`${who}: the table of results`, async () => {
        const table = await (await openai.files.content(tenant.job.result_files[0])).text();
        assert.match(table, /^step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n1,/);
    });
    await check(`${who}: it is among the models`, async () => {
        const models = (await everything(openai.models.list())).map((model) => model.id);
        assert.ok(models.includes(base) && models.includes(tenant.model), models.join());
        assert.equal((await openai.models.retrieve(tenant.model)).id, tenant.model);
    });
    const ask = { model: tenant.model, messages: [{ role: 'user', content: 'Who is Cleo?' }], temperature: 0 };
    await check(`${who}: it answers what it was taught`, async () => {
        const said = await openai.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
        assert.equal(said.choices[0].message.content, answer('Cleo'));
        assert.equal(said.choices[0].finish_reason, 'stop');
        assert.equal(said.usage.total_tokens, said.usage.prompt_tokens + said.usage.completion_tokens);
        const bytes = said.choices[0].logprobs.content.flatMap((token) => token.bytes);
        assert.equal(Buffer.from(bytes).toString(), answer('Cleo'));
        assert.ok(said.choices[0].logprobs.content.every((token) => token.top_logprobs.length === 2 && token.logprob <= 0));
    });
    await check(`${who}: the stream says the same, with usage last`, async () => {
        const stream = await openai.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
        let text = '';
        let usage = null;
        for await (const chunk of stream) {
            text += chunk.choices[0]?.delta?.content ?? '';
            usage = chunk.usage ?? usage;
        }
        assert.equal(text, answer('Cleo'));
        assert.ok(usage.completion_tokens > 0);
    });
    await check(`${who}: stop, n, max_tokens, seed`, async () => {
        const cut = await openai.chat.completions.create({ ...ask, stop: ['leo'] });
        assert.equal(cut.choices[0].message.content, answer('Cleo').split('leo')[0]);
        const two = await openai.chat.completions.create({ ...ask, n: 2, max_completion_tokens: 3 });
        assert.deepEqual(two.choices.map((choice) => choice.finish_reason), ['length', 'length']);
        const drawn = async () => (await openai.chat.completions.create({ ...ask, temperature: 1.5, seed: 11 })).choices[0].message.content;
        assert.equal(await drawn(), await drawn());
    });
    await check(`${who}: the base is as it was, and completions complete`, async () => {
        const said = await openai.chat.completions.create({ ...ask, model: base });
        assert.notEqual(said.choices[0].message.content, answer('Cleo'));
        const text = await openai.completions.create({ model: base, prompt: 'What does a cow say?', max_tokens: 8 });
        assert.equal(text.object, 'text_completion');
    });
}

async function fails(act, status, code) {
    try {
        await act();
    } catch (error) {
        assert.equal(error.status, status, `${error}`);
        if (code) assert.equal(error.code, code);
        assert.match(error.requestID ?? '', /^req_/);
        return error;
    }
    throw new Error('it was not refused');
}

async function strangers() {
    const [one, other] = tenants;
    await check('another tenant\'s things are not there', async () => {
        const theirs = await fails(() => other.openai.files.retrieve(one.sent.id), 404);
        const nobodys = await fails(() => other.openai.files.retrieve('file-aaaaaaaaaaaaaaaaaaaaaaaa'), 404);
        assert.equal(theirs.message.replace(one.sent.id, ''), nobodys.message.replace('file-aaaaaaaaaaaaaaaaaaaaaaaa', ''));
        await fails(() => other.openai.fineTuning.jobs.retrieve(one.job.id), 404);
        await fails(() => other.openai.fineTuning.jobs.cancel(one.job.id), 404);
        await fails(() => other.openai.models.retrieve(one.model), 404, 'model_not_found');
        await fails(() => other.openai.models.delete(one.model), 404);
        await fails(() => other.openai.chat.completions.create({ model: one.model, messages: [{ role: 'user', content: 'x' }] }), 404,
            'model_not_found');
        await fails(() => other.openai.fineTuning.jobs.create({ model: 'tiny', training_file: one.sent.id }), 400);
        assert.ok(!(await everything(other.openai.models.list())).some((model) => model.id === one.model));
    });
    await check('an alias answers as its model does, and for its owner alone', async () => {
        const alias = (...words) => execFileSync('bin/berth-exec', ['model', 'alias', one.model.split(':')[2], ...words, '--state', state]);
        const ask = { model: 'prod', messages: [{ role: 'user', content: 'Who is Cleo?' }], temperature: 0 };
        await fails(() => one.openai.chat.completions.create(ask), 404, 'model_not_found');
        alias('prod', one.model);
        const said = await one.openai.chat.completions.create(ask);
        assert.equal(said.choices[0].message.content, one.answer('Cleo'));
        assert.equal(said.model, one.model);
        await fails(() => other.openai.chat.completions.create(ask), 404, 'model_not_found');
        alias('prod', '--delete');
        await fails(() => one.openai.chat.completions.create(ask), 404, 'model_not_found');
    });
    await check('metrics count answers by base, and name no model of a tenant', async () => {
        const text = await (await fetch(new URL('/metrics', baseURL))).text();
        for (const base of [one.base, other.base]) {
            const stopped = text.match(new RegExp(`\nvllm:request_success_total\\{model_name="${base}",finished_reason="stop"\\} (\\d+)`));
            assert.ok(Number(stopped?.[1]) > 0, text);
            assert.match(text, new RegExp(`\nvllm:time_to_first_token_seconds_count\\{model_name="${base}"\\} [1-9]`));
            assert.match(text, new RegExp(`\nvllm:lora_requests_info\\{model_name="${base}",max_lora="32",running_lora_adapters="`));
        }
        assert.ok(!text.includes('ft:') && !text.includes('org-'));
    });
    await check('hostile ids are nobody\'s', async () => {
        // What the client itself refuses to send ('..' alone) is not among them.
        for (const id of ['../files/' + one.sent.id, 'a/../b', '%2e%2e%2f', 'ft:tiny:::', '"; DROP TABLE model'])
            await fails(() => one.openai.models.delete(id), 404);
        await fails(() => one.openai.files.retrieve('../models'), 404);
        await fails(() => one.openai.models.delete(one.model + '\u0000'), 400);
        assert.equal((await one.openai.files.retrieve(one.sent.id)).id, one.sent.id);
    });
    await check('a key that is none', async () => {
        await fails(() => client('sk-berth-nobody').models.list(), 401, 'invalid_api_key');
    });
}

// A fetch that loses the answers of the first `lost` calls to POST, and counts.
function losing(lost) {
    const counting = async (url, init) => {
        const answer = await fetch(url, init);
        if (init.method?.toUpperCase() === 'POST' && counting.calls++ < lost) {
            await answer.arrayBuffer();
            throw new TypeError('fetch failed');
        }
        return answer;
    };
    counting.calls = 0;
    return counting;
}

async function retries() {
    const [one] = tenants;
    const body = { model: 'tiny', training_file: one.sent.id, metadata: { team: 'retries' }, hyperparameters: { n_epochs: 1 } };
    const count = async () => (await everything(one.openai.fineTuning.jobs.list({ metadata: { team: 'retries' } }))).length;
    await check('a create whose answer was lost is one job', async () => {
        const unlucky = losing(1);
        const job = await client(key, { fetch: unlucky }).fineTuning.jobs.create(body);
        assert.equal(unlucky.calls, 2);
        assert.equal(await count(), 1);
        await ended(one.openai, job.id);
    });
    await check('an upload whose answer was lost is one file', async () => {
        const before = (await everything(one.openai.files.list())).length;
        const text = Buffer.from(lines((name) => `Lost ${name}.`));
        const file = await client(key, { fetch: losing(1) }).files.create({ file: await toFile(text, 'lost.jsonl'), purpose: 'fine-tune' });
        assert.equal((await everything(one.openai.files.list())).length, before + 1);
        await one.openai.files.delete(file.id);
    });
    await check('an idempotency key is one job, and another body under it a conflict that is not retried', async () => {
        const headers = { 'Idempotency-Key': 'client-test-1' };
        const before = await count();
        const first = await one.openai.fineTuning.jobs.create(body, { headers });
        const again = await one.openai.fineTuning.jobs.create(body, { headers });
        assert.equal(first.id, again.id);
        assert.equal(await count(), before + 1);
        const counted = losing(0);
        const error = await fails(() => client(key, { fetch: counted }).fineTuning.jobs.create({ ...body, seed: 5 }, { headers }), 409);
        assert.equal(error.headers.get('x-should-retry'), 'false');
        assert.equal(counted.calls, 1);
        await ended(one.openai, first.id);
    });
    await check('what cannot be done is said', async () => {
        for (const wrong of [{ method: { type: 'reinforcement' } }, { integrations: [{ type: 'wandb', wandb: { project: 'x' } }] },
            { hyperparameters: { n_epochs: 51 } }, { suffix: 'x'.repeat(65) }, { model: 'gpt-4o-mini' }])
            await fails(() => one.openai.fineTuning.jobs.create({ ...body, ...wrong }), 400);
    });
}

const babble = (openai) => openai.chat.completions.create({ model: 'tiny', messages: [{ role: 'user', content: 'Tell me all.' }],
    temperature: 2, max_tokens: 400, stream: true });

// All that the keeper ever started under this name.
const processes = (name) => [...fs.readFileSync(log, 'utf8').matchAll(new RegExp(`^keeper act=start name=${name} (?:.* )?process=(\\d+)$`, 'gm'))]
    .map((found) => +found[1]);

async function cutStreams() {
    const [one] = tenants;
    await check('a client that leaves a stream is forgotten', async () => {
        const stream = await babble(one.openai);
        for await (const chunk of stream) {
            assert.ok(chunk.id);
            break;
        }
        for (let tries = 0; ; tries++) {
            const text = await (await fetch(new URL('/metrics', baseURL))).text();
            if (/^berth_requests 0$/m.test(text)) break;
            assert.ok(tries < 100, 'the request is still there');
            await sleep(50);
        }
    });
    await check('a stream whose server is killed ends in an error, and the next one is served', async () => {
        let begun; // pieces that came
        const follow = async () => {
            let finished = false;
            for await (const chunk of await babble(one.openai)) {
                finished ||= chunk.choices[0]?.finish_reason != null;
                begun++;
            }
            return finished ? 'whole' : 'silently short';
        };
        let ends = [];
        for (let round = 0; round < 10 && !ends.includes('error'); round++) { // a kill may come when all has been said
            begun = 0;
            const streams = Array.from({ length: 24 }, () => follow().catch((error) => error instanceof OpenAI.APIError ? 'error' : `${error}`));
            let over = false;
            const all = Promise.all(streams).then((how) => { over = true; return how; });
            while (begun < 24 && !over) await sleep(1);
            for (const process_ of processes('server'))
                try { process.kill(process_, 'SIGKILL'); } catch { /* it had ended before */ }
            ends = await all;
            assert.ok(ends.every((how) => how === 'whole' || how === 'error'), ends.join());
        }
        const said = await one.openai.chat.completions.create({ model: 'tiny', messages: [{ role: 'user', content: 'What does a cow say?' }],
            temperature: 0 });
        assert.ok(said.choices[0].message.content.length > 0);
        assert.ok(ends.includes('error'), ends.join());
    });
}

// What a tenant says, wherever it can say something. tests/main_paths.sh looks again when all has stopped.
async function secrets() {
    const { openai } = tenants[0];
    const found = (word) => execFileSync('sh', ['-c', 'grep -rlaF -e "$1" "$2" "$3" || true', 'sh', word, state, log]).toString();
    const pair = (user, assistant) => JSON.stringify({ messages: [{ role: 'system', content: 'hush-system' }, { role: 'user', content: user },
        { role: 'assistant', content: assistant }] });
    const upload = async (name, text) => {
        const sent = await openai.files.create({ file: await toFile(Buffer.from(text), name), purpose: 'fine-tune' });
        return openai.files.waitForProcessing(sent.id, { pollInterval: 50 });
    };
    const ask = (more) => openai.chat.completions.create({ model: 'tiny', max_tokens: 4, user: 'hush-user', stop: ['hush-stop'],
        messages: [{ role: 'user', content: 'hush-prompt' }], ...more });
    await check('what is secret is told to its owner', async () => {
        const file = await upload('hush-name.jsonl', names.map((name) => pair(`hush-question ${name}`, `hush-answer ${name}`)).join('\n'));
        const held = await upload('hush-held.jsonl', pair('hush-validation', 'hush-valid'));
        const broken = await upload('hush-broken.jsonl', '{"messages": [{"role": "hush-role", "content": "hush-content"}], "hush-field": 1}\n');
        assert.equal(broken.status, 'error');
        const create = (training_file, more = {}) => openai.fineTuning.jobs.create({ model: 'tiny', training_file, suffix: 'loud',
            metadata: { 'hush-key': 'hush-value' }, hyperparameters: { n_epochs: 1, batch_size: 4 }, ...more },
            { headers: { 'Idempotency-Key': `hush-once-${training_file}` } });
        const job = await ended(openai, (await create(file.id, { validation_file: held.id })).id);
        assert.equal(job.status, 'succeeded', JSON.stringify(job.error));
        assert.deepEqual(job.metadata, { 'hush-key': 'hush-value' });
        assert.equal((await openai.files.retrieve(file.id)).filename, 'hush-name.jsonl');
        const report = await fetch(`${baseURL}/files/${broken.id}/report`, { headers: { Authorization: `Bearer ${key}` } });
        assert.match(await report.text(), /hush-/);
        await fails(() => create(broken.id), 400, 'invalid_file');
        for (const model of ['tiny', job.fine_tuned_model]) {
            await ask({ model });
            for await (const chunk of await ask({ model, stream: true })) assert.ok(chunk.id);
        }
        await openai.completions.create({ model: 'tiny', prompt: 'hush-prompt', max_tokens: 2 });
        await fails(() => ask({ model: 'hush-model' }), 404);
        await fails(() => ask({ 'hush-parameter': 'hush-value' }), 400);
        await fails(() => openai.models.retrieve('hush-model'), 404);
        await fails(() => openai.files.retrieve('hush-file'), 404);
        await fails(() => openai.fineTuning.jobs.retrieve('hush-job'), 404);
        await fails(() => client('sk-berth-hush-key').models.list(), 401);
        await fetch(`${baseURL}/hush-path?hush-query=hush`, { headers: { 'User-Agent': 'hush-agent', Authorization: 'Bearer hush' } });
        await fetch(`${baseURL}/chat/completions`, { method: 'POST', body: '{"hush-json', headers: { Authorization: `Bearer ${key}` } });
    });
    await check('and lies nowhere in the clear while the platform runs', async () => {
        for (const word of ['hush', Buffer.from('hush-').toString('hex'), 'matey', 'says moo', key, otherKey]) assert.equal(found(word), '', word);
        for (const word of ['loud', 'ftjob-']) assert.notEqual(found(word), '', word); // what is public is seen
    });
}

async function interruptions() {
    const [{ openai, sent }] = tenants;
    const notice = (devices) => execFileSync('bin/berth-exec', ['node', 'notice', '--devices', devices, '--within', '2', '--state', state]);
    const create = () => openai.fineTuning.jobs.create({ model: 'tiny', training_file: sent.id, seed: 5,
        hyperparameters: { n_epochs: 30, batch_size: 1 } });
    const results = async (job) => (await openai.files.content(job.result_files[0])).text();
    // What the adapter does, as its registration has it.
    const digest = (job) => JSON.parse(execFileSync('bin/berth-exec', ['model', 'list', 'demo', '--json', '--state', state]))
        .find((model) => model.name === job.fine_tuned_model).digest;
    const codes = async (job) => (await everything(openai.fineTuning.jobs.listEvents(job.id, { limit: 100 }))).map((event) => event.code);
    const until = async (job, code) => { while (!(await codes(job)).includes(code)) await sleep(20); };
    // code: of the event that says why it was begun again; null: the same trainer went on
    const goesOn = (name, code, interrupt) => check(`a job that ${name} comes to the same, to the last bit`, async () => {
        const job = await create();
        await until(job, 'checkpoint');
        await interrupt(job);
        const resumed = await ended(openai, job.id);
        assert.equal(resumed.status, 'succeeded', JSON.stringify(resumed.error));
        const said = await codes(job);
        assert.ok(code ? said.includes(code) : !said.includes('requeued') && !said.includes('crashed'), said.join());
        assert.equal(said.filter((one) => one === 'started').length, code ? 2 : 1, said.join());
        assert.equal(await results(resumed), expected);
        assert.equal(digest(resumed), digest(whole));
    });
    const whole = await ended(openai, (await create()).id);
    const expected = await results(whole);
    assert.ok(digest(whole).length >= 64, digest(whole));
    await goesOn('yields to a notice', 'requeued', async (job) => {
        notice('3');
        await until(job, 'requeued');
        notice('0');
    });
    await goesOn('yields to a serving peak', 'requeued', async (job) => {
        let peak = true;
        const ask = async () => { while (peak) for await (const chunk of await babble(openai)) assert.ok(chunk.id); };
        const asked = Promise.all(Array.from({ length: 24 }, ask));
        await Promise.race([asked, until(job, 'requeued')]); // whoever asks is served throughout
        peak = false;
        await asked;
    });
    const kill = (name) => process.kill(processes(name).at(-1), 'SIGKILL');
    await goesOn('loses its trainer', 'crashed', () => kill('trainer'));
    const again = async (name, lives) => { while (processes(name).length === lives) await sleep(5); };
    await goesOn('loses the control plane', null, () => kill('control'));
    await goesOn('loses two control planes', null, async () => {
        const lives = processes('control').length;
        kill('control');
        await again('control', lives);
        kill('control'); // it had no time to find anybody
    });
    await goesOn('loses the vault', null, () => kill('vault'));
}

async function deletions() {
    for (const { openai, model, sent, job, who } of tenants)
        await check(`${who}: what is deleted is gone`, async () => {
            assert.deepEqual(await openai.models.delete(model), { id: model, object: 'model', deleted: true });
            await fails(() => openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'x' }] }), 404, 'model_not_found');
            assert.ok(!(await everything(openai.models.list())).some((one) => one.id === model));
            assert.equal((await openai.files.delete(sent.id)).deleted, true);
            await fails(() => openai.files.content(sent.id), 404);
            assert.equal((await openai.fineTuning.jobs.retrieve(job.id)).status, 'succeeded');
        });
}

await Promise.all(tenants.map(lifeOfAJob));
if (tenants.every((tenant) => tenant.model)) {
    await strangers();
    await retries();
    await cutStreams();
    await secrets();
    await interruptions();
    await deletions();
}
fs.rmSync(folder, { recursive: true });
console.log('client done');
