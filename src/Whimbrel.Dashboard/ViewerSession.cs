using System.Text.Json;
using Whimbrel.Http;

namespace Whimbrel.Dashboard;

/// <summary>
/// WebSocket of an open page. It sends the view that it wants, and receives that view at each sample.
/// </summary>
internal sealed class ViewerSession(Viewers viewers, DateTimeOffset loginEnd) : WebSocketSession
{
    private volatile View _view = new();

    internal View View => _view;

    /// <summary>End of the login; the sampler closes the page then.</summary>
    internal DateTimeOffset LoginEnd { get; } = loginEnd;

    /// <summary>The session of <see cref="View.Id"/> that the last sample has shown. The sampler's own.</summary>
    internal Session? Watched { get; set; }

    protected override void OnConnected()
    {
        base.OnConnected();
        if (!viewers.TryAdd(this))
            Close(WebSocketStatus.TryAgainLater, $"All {viewers.Most} places are taken (DashboardOptions.MaxViewers)");
    }

    protected override void OnText(ReadOnlySpan<byte> utf8)
    {
        try
        {
            _view = View.Parse(utf8);
        }
        catch (Exception e) when (e is JsonException or FormatException)
        {
            Close(WebSocketStatus.InvalidPayload, e is JsonException ? "No JSON" : e.Message);
            return;
        }

        viewers.Wake();
    }

    protected override void OnBinary(ReadOnlySpan<byte> data) =>
        Close(WebSocketStatus.UnsupportedData, "A view is text");

    protected override void OnDisconnected(CloseReason reason)
    {
        base.OnDisconnected(reason);
        viewers.Remove(this);
    }
}
