using System.Globalization;
using System.Reflection;
using System.Text;

namespace Whimbrel.Conformance;

/// <summary>The numbers of the contract, each in one sentence, and which tests of which engines stand for it.</summary>
internal static class Contracts
{
    /// <summary>Sentences in the order of their numbers. Kept short; the full text is at the head of <see cref="Session"/>.</summary>
    internal static readonly (int Number, string Promise)[] All =
    [
        (1, "A session serves one connection or one dial attempt and sees its callbacks in one legal order; OnDisconnected comes exactly once, last, with the first cause."),
        (2, "Never two callbacks at once for one session, never one inside another."),
        (3, "Bytes that a session does not take stay with the connection and come again, joined with what follows; none is lost, also not what was there before the session or after it."),
        (4, "What an override throws goes to OnError and ends that connection only; it is counted, and without an OnError of its own told by a notice."),
        (5, "A send is taken whole or not at all, by any thread, and never throws after the end."),
        (6, "SendAsync waits for room, first come first served; continuations run on the loop when awaited there, never inside the caller's stack."),
        (7, "What one thread does with one session takes effect in the order of its calls."),
        (8, "The send queue is bounded; at the limit the policy acts; BytesPending is true from the moment a send returns."),
        (9, "A session whose own callbacks fill its queue is not read until the queue has drained; nothing is lost and nobody stalls."),
        (10, "After PauseReceiving nothing is delivered until ResumeReceiving, and then what was held comes first."),
        (11, "The peer's end of stream closes, unless the session keeps its own half open until FinishSending."),
        (12, "Close sends what is queued, then FIN, and waits within limits; Abort discards and resets. A stop waits for callbacks and handlers up to its deadline, and then says what still runs."),
        (13, "A span given to a callback is valid during the call only."),
        (14, "Callbacks run on the loop; one that blocks it is reported by name, also while it does."),
        (15, "HandOver gives the connection, with unread bytes, id, groups, queue and counters, to the next session."),
        (16, "UpgradeToTls sends what was queued plain and what follows encrypted, refuses unread bytes unless they are passed on, and ends in OnHandshaked or a close."),
        (17, "Groups: join, leave and broadcast from any thread; members of one loop see one order."),
        (18, "What is posted to a session runs on its thread between two callbacks, behind what its caller has sent; what was taken runs, before the last callbacks."),
        (19, "Time limits are never early and count nothing against the peer that the session is to blame for; what has passed is told to OnTimeout, which ends the connection."),
        (20, "A part of a file is a message like any other, and is not in memory; the file is given back, and one that cannot be sent to its end ends the connection."),
        (21, "What a MessageWriter holds is one message, of no session until a send has taken it; with any other result it stays with its writer."),
        (22, "A pipe gives every byte of one session to another, in order, with back-pressure and without judging anybody slow; ends are passed on, and the result says who ended and why."),
        (23, "SentAsync completes exactly once, however the connection ends: true when the system has taken all that its caller had sent before, false when some of it was dropped, or may have been."),
    ];

    internal static readonly string[] Engines = ["Uring", "Epoll", "Portable", "Memory"];

    // The tests with a number: to look through all classes for them takes a while.
    private static readonly Lazy<(Type Type, MethodInfo Method, ContractAttribute Contract)[]> s_tagged = new(static () =>
    [
        .. from type in typeof(Contracts).Assembly.GetTypes()
           where type.IsClass && !type.IsAbstract
           from method in type.GetMethods()
           let contract = method.GetCustomAttribute<ContractAttribute>()
           where contract is not null
           select (type, method, contract),
    ]);

    /// <summary>Test methods of one contract number, as Suite.Method, with the engines whose classes run
    /// them.</summary>
    internal static SortedDictionary<string, SortedSet<string>> TestsOf(int number)
    {
        SortedDictionary<string, SortedSet<string>> tests = new(StringComparer.Ordinal);
        foreach ((Type type, MethodInfo method, ContractAttribute contract) in s_tagged.Value)
        {
            if (!contract.Numbers.Contains(number)) continue;
            string name = $"{method.DeclaringType!.Name}.{method.Name}";
            if (!tests.TryGetValue(name, out SortedSet<string>? engines)) tests.Add(name, engines = new SortedSet<string>(StringComparer.Ordinal));
            foreach (string engine in Engines.Where(e => type.Name.StartsWith(e, StringComparison.Ordinal))) engines.Add(engine);
        }

        return tests;
    }

    internal static string Page()
    {
        StringBuilder page = new();
        page.Append("# Guarantees\n\n");
        page.Append("Made from the tags of the conformance tests; do not edit (`WHIMBREL_ACCEPT_GUARANTEES=1 ./test --project Whimbrel.Conformance`\n");
        page.Append("writes it anew). Each test runs on every engine named, over TCP and over Unix sockets. The numbers are those at the head of\n");
        page.Append("`src/Whimbrel/Session.cs`.\n");
        foreach ((int number, string promise) in All)
        {
            SortedDictionary<string, SortedSet<string>> tests = TestsOf(number);
            page.Append(CultureInfo.InvariantCulture, $"\n## {number}\n\n{promise}\n\n| test | engines |\n|---|---|\n");
            foreach ((string name, SortedSet<string> engines) in tests)
            {
                page.Append(CultureInfo.InvariantCulture, $"| `{name}` | {string.Join(", ", engines).ToLowerInvariant()} |\n");
            }
        }

        return page.ToString();
    }
}
