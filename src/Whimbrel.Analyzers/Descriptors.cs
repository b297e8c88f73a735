using Microsoft.CodeAnalysis;

namespace Whimbrel.Analyzers;

/// <summary>
/// The rules. Each message says what happens, why, and what to write instead; docs/guide/analyzers.md has a section for
/// each.
/// </summary>
internal static class Descriptors
{
    private const string Category = "Whimbrel";
    private const string Help = "docs/guide/analyzers.md#";

    internal static readonly DiagnosticDescriptor AsyncVoidDelegate = Rule(
        "WHIM0001",
        "An async method without a task is given to Whimbrel",
        "{0} takes a method that returns nothing, so this async {1} becomes async void: nothing waits for it, and what "
        + "follows its first await runs outside of the callback. {2}");

    internal static readonly DiagnosticDescriptor AsyncVoidOverride = Rule(
        "WHIM0002",
        "A callback of Whimbrel is overridden as async void",
        "{0} is overridden as async void: Whimbrel continues at its first await, and what it throws later ends no "
        + "connection. Do the awaiting part in Post(async () => ...), or override OnReceivedAsync.");

    internal static readonly DiagnosticDescriptor IgnoredSend = Rule(
        "WHIM0003",
        "The result of a send in a loop is ignored",
        "The result of {0} is ignored in a loop: at the send limit messages are dropped or the connection is ended, "
        + "and the loop does not notice. Stop at another result than SendResult.Queued, or await {0}Async, which "
        + "waits for room.");

    internal static readonly DiagnosticDescriptor BlockingCall = Rule(
        "WHIM0004",
        "A callback of Whimbrel blocks its thread",
        "{0} blocks the thread of {1}, which is a loop's: all its connections wait meanwhile, or forever. Await "
        + "instead, or run the callbacks with Scheduling.ThreadPool and suppress this warning there.");

    internal static readonly DiagnosticDescriptor RawSend = Rule(
        "WHIM0005",
        "A WebSocket session sends bytes without a frame",
        "{0} of Session sends bytes past the WebSocket's framing, and the peer will fail the connection. Use SendText, "
        + "SendBinary or their Async forms.");

    internal static readonly DiagnosticDescriptor AsyncVoidCall = Rule(
        "WHIM0006",
        "A callback of Whimbrel calls an async void method",
        "{0} is async void and is called in {1}: nothing waits for it, and what it throws after its first await ends "
        + "the process. Let it return a Task, and await that: in an async lambda or handler where there is an overload "
        + "that takes one, else in Post(async () => ...).");

    internal static readonly DiagnosticDescriptor NoOverride = Rule(
        "WHIM0007",
        "A method has the name of a callback of Whimbrel and is no override",
        "{0} has the name of a callback of {1}, and other parameters: Whimbrel never calls it. Write: override {2}.");

    internal static readonly DiagnosticDescriptor HiddenReceive = Rule(
        "WHIM0008",
        "An override that is never called",
        "{0} is never called: {1} is overridden as well, and gets all received bytes. Keep one of them, or "
        + "call {0} in {1}.");

    internal static readonly DiagnosticDescriptor IgnoredStart = Rule(
        "WHIM0009",
        "A start or a connect is not awaited",
        "{0} is not awaited, so that nothing reports its failure (a port in use, no listener). Await it.");

    internal static readonly DiagnosticDescriptor EarlySend = Rule(
        "WHIM0010",
        "A session sends in its constructor",
        "{0} in a constructor or an initializer sends nothing and returns Closed: the session has no connection yet. "
        + "Override OnConnected and send there.");

    internal static readonly DiagnosticDescriptor LateResponse = Rule(
        "WHIM0011",
        "A request or response is used by work that its handler does not await",
        "{0} is used by work that {1} starts and that nothing awaits: when the handler returns, the response is sent, "
        + "and a later use throws on a thread where nothing reports it. Make the handler async and await the work, or "
        + "copy what the work needs.");

    private static DiagnosticDescriptor Rule(string id, string title, string message) =>
        new(id, title, message, Category, DiagnosticSeverity.Warning, isEnabledByDefault: true,
            helpLinkUri: Help + id.ToLowerInvariant());
}
