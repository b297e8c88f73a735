using System.Text.Json;
using Whimbrel.Http;

namespace Whimbrel.Dashboard;

/// <summary>
/// An open page. It sends the view that it wants over its WebSocket, and receives that view at each sample.
/// </summary>
internal sealed class Viewer(Viewers viewers, WebSocketSession socket)
{
    private volatile View _view = new();

    internal View View => _view;

    internal WebSocketSession Socket => socket;

    /// <summary>The session of <see cref="View.Id"/> that the last sample has shown. The sampler's own.</summary>
    internal Session? Watched { get; set; }

    /// <summary>Runs from the opening of the page to its end.</summary>
    internal async Task RunAsync(CancellationToken stop)
    {
        if (!viewers.TryAdd(this))
        {
            socket.Close(WebSocketStatus.TryAgainLater,
                $"All {viewers.Most} places are taken (DashboardOptions.MaxViewers)");
            return;
        }

        try
        {
            while (await socket.ReceiveMessageAsync(stop).ConfigureAwait(false) is { } message && TryShow(message))
            {
            }
        }
        catch (Exception e) when (e is WebSocketException or OperationCanceledException)
        {
            // The page is gone, or the server stops.
        }
        finally
        {
            viewers.Remove(this);
        }
    }

    /// <summary>Takes another view. False: it is none, and the page is being closed with the reason.</summary>
    private bool TryShow(in WebSocketMessage message)
    {
        try
        {
            if (!message.IsText) throw new FormatException("a view is text");
            _view = View.Parse(message.Data.Span);
            viewers.Wake();
            return true;
        }
        catch (Exception e) when (e is JsonException or FormatException)
        {
            socket.Close(WebSocketStatus.InvalidPayload, e is JsonException ? "No JSON" : e.Message);
            return false;
        }
    }
}
