using System.Globalization;
using System.Reflection;
using System.Text;

namespace Whimbrel.Conformance;

/// <summary>The numbers of the contract, each in one or two sentences, with the tests that check them on each
/// engine.</summary>
internal static class Contracts
{
    /// <summary>Short sentences in the order of their numbers; <see cref="Session"/> has the full text.</summary>
    internal static readonly (int Number, string Promise)[] All =
    [
        (1, "A session serves one connection or one connect attempt; its callbacks come in one legal order, and "
            + "OnDisconnected is called exactly once and last, with the first cause."),
        (2, "Callbacks of one session never overlap and never nest."),
        (3, "Bytes that a session does not consume are kept and passed again, followed by new data; none is lost, "
            + "including data received before the session began or left when it ended."),
        (4, "An exception from an override is passed to OnError, counted, and ends this connection only; without an "
            + "OnError override a diagnostic event is raised."),
        (5, "A message is queued completely or not at all, from any thread; after the connection has ended, sends "
            + "do not throw."),
        (6, "SendAsync waits for queue space in FIFO order; awaited on a loop, it resumes on that loop, never inside "
            + "the completing call."),
        (7, "Calls of one thread for one session take effect in call order."),
        (8, "Each send queue has a limit and a policy at the limit; BytesPending includes a message as soon as its "
            + "send returns."),
        (9, "While a session's own callbacks have filled its send queue, its connection is not read; no data is lost, "
            + "and no session stalls."),
        (10, "After PauseReceiving no data is delivered until ResumeReceiving, and then held data is delivered first."),
        (11, "The peer's end of stream closes the connection, unless the session keeps its own half open until "
            + "ShutdownSend."),
        (12, "Close sends queued data, then FIN, and waits within limits; Abort discards and resets. A stop waits for "
            + "callbacks and handlers up to its deadline, and then reports what still runs."),
        (13, "A span passed to a callback is valid during the call only."),
        (14, "Callbacks run on the loop; a callback that blocks it is reported by name, even while it still blocks."),
        (15, "HandOver transfers the connection to the next session, with unconsumed data, id, groups, send queue "
            + "and counters."),
        (16, "UpgradeToTls sends earlier data in the clear and later data encrypted, fails if unconsumed plaintext "
            + "remains that is not passed on, and ends with OnTlsHandshakeCompleted or a close."),
        (17, "Join, leave and broadcast are thread-safe; members of one loop see one order."),
        (18, "A post to a session runs on its thread between two callbacks, after earlier sends of its caller; an "
            + "accepted post always runs, before the last callbacks."),
        (19, "Timeouts never fire early, and exclude time for which the session itself is responsible; an expired "
            + "timeout calls OnTimeout, which ends the connection."),
        (20, "A part of a file is sent in order like any other message, without being held in memory; the file is "
            + "released, and one that cannot be sent completely ends the connection."),
        (21, "A MessageWriter holds one message, which belongs to no session until a send accepts it; with any other "
            + "result it stays in its writer."),
        (22, "A pipe forwards every byte of one session to another, in order, with back-pressure and without treating "
            + "a session as slow; ends are forwarded, and the result names the side that ended and the cause."),
        (23, "SentAsync completes exactly once, however the connection ends: with true when the kernel has accepted "
            + "everything that its caller sent before, with false when some of it was or may have been dropped."),
    ];

    internal static readonly string[] Engines = ["Uring", "Epoll", "Portable", "Memory"];

    // The tests with a number, found once, because the search through all classes takes a while.
    private static readonly Lazy<(Type Type, MethodInfo Method, ContractAttribute Contract)[]> s_tagged =
        new(static () =>
        [
            .. from type in typeof(Contracts).Assembly.GetTypes()
               where type.IsClass && !type.IsAbstract
               from method in type.GetMethods()
               let contract = method.GetCustomAttribute<ContractAttribute>()
               where contract is not null
               select (type, method, contract),
        ]);

    /// <summary>Test methods of one contract number, as Suite.Method, with the engines that run them.</summary>
    internal static SortedDictionary<string, SortedSet<string>> TestsOf(int number)
    {
        SortedDictionary<string, SortedSet<string>> tests = new(StringComparer.Ordinal);
        foreach ((Type type, MethodInfo method, ContractAttribute contract) in s_tagged.Value)
        {
            if (!contract.Numbers.Contains(number)) continue;
            string name = $"{method.DeclaringType!.Name}.{method.Name}";
            if (!tests.TryGetValue(name, out SortedSet<string>? engines))
                tests.Add(name, engines = new SortedSet<string>(StringComparer.Ordinal));
            foreach (string engine in Engines.Where(e => type.Name.StartsWith(e, StringComparison.Ordinal)))
                engines.Add(engine);
        }

        return tests;
    }

    internal static string Page()
    {
        StringBuilder page = new();
        page.Append("# Guarantees\n\n");
        page.Append("Generated from the tags of the conformance tests; do not edit (`WHIMBREL_ACCEPT_GUARANTEES=1 "
            + "./test --project Whimbrel.Conformance`\n");
        page.Append("rewrites it). Each test runs on every named engine, over TCP and over Unix sockets. The numbers "
            + "are those at the head of\n");
        page.Append("`src/Whimbrel/Session.cs`.\n");
        foreach ((int number, string promise) in All)
        {
            SortedDictionary<string, SortedSet<string>> tests = TestsOf(number);
            page.Append(CultureInfo.InvariantCulture, $"\n## {number}\n\n{promise}\n\n| test | engines |\n|---|---|\n");
            foreach ((string name, SortedSet<string> engines) in tests)
            {
                page.Append(CultureInfo.InvariantCulture,
                    $"| `{name}` | {string.Join(", ", engines).ToLowerInvariant()} |\n");
            }
        }

        return page.ToString();
    }
}
