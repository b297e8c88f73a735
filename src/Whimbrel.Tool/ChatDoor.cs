using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>
/// First session of a connection to the chat's port, until its protocol is detected by the first bytes: HTTP (the page,
/// or WebSocket) or lines. A silent client is treated as a terminal that waits for a greeting. Consumes no bytes: the
/// next session receives all of them.
/// </summary>
internal sealed class ChatDoor(ChatRoom room, HttpServer web) : Session
{
    // A browser sends its request at once; a user at a terminal should not wait long for a greeting.
    private static readonly TimeSpan s_silence = TimeSpan.FromMilliseconds(500);
    // For the rest of a line that may become a request.
    private static readonly TimeSpan s_line = TimeSpan.FromSeconds(2);

    private LoopTimer? _timer;
    private bool _hasBegun;

    internal static Server CreateServer(ServerOptions options, ChatRoom room)
    {
        // Only its routes are used: the other server accepts the connections.
        HttpServer web = new("http://127.0.0.1:0");
        web.WebSocket("/", () => new ChatSocket(room), ChatSocket.Limits, ChatPage.Answer);
        return new Server(options, () => new ChatDoor(room, web));
    }

    protected override void OnConnected() => _timer = StartTimer(s_silence);

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        switch (ChatOpening.Judge(unread))
        {
            case ChatOpening.Spoken.Http:
                Enter(web.CreateSession());
                break;
            case ChatOpening.Spoken.Lines:
                Enter(new ChatSession(room));
                break;
            default:
                if (!_hasBegun) _timer!.Start(s_line);
                _hasBegun = true;
                break;
        }

        return 0;
    }

    protected override void OnTimer(LoopTimer timer) => Enter(new ChatSession(room));

    private void Enter(Session next)
    {
        _timer!.Cancel();
        HandOver(next);
    }
}
