using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>
/// Who comes to the chat's port, until it is known what they speak: a request of HTTP (the page, or WebSocket), or lines. The first bytes decide, and silence means
/// somebody who waits to be greeted. Takes no byte itself: whoever follows gets them all.
/// </summary>
internal sealed class ChatDoor(ChatRoom room, HttpServer web) : Session
{
    // A browser asks as soon as it is connected; who is at a terminal should not wait for a greeting.
    private static readonly TimeSpan s_silence = TimeSpan.FromMilliseconds(500);
    // For the rest of a line that may become a request.
    private static readonly TimeSpan s_line = TimeSpan.FromSeconds(2);

    private LoopTimer? _timer;
    private bool _hasBegun;

    internal static Server CreateServer(ServerOptions options, ChatRoom room)
    {
        // Only its routes are wanted: connections come from the other one.
        HttpServer web = new("http://127.0.0.1:0");
        web.WebSocket("/", () => new ChatSocket(room), ChatSocket.Limits, ChatPage.Answer);
        return new Server(options, () => new ChatDoor(room, web));
    }

    protected override void OnConnected() => _timer = StartTimer(s_silence);

    protected override int OnUnread(ReadOnlySpan<byte> unread)
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
