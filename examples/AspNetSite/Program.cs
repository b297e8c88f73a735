using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Extensions.DependencyInjection;
using Whimbrel.Kestrel;

// An ordinary ASP.NET Core application with one additional line: requests, a stream, a SignalR hub. curl
// http://localhost:5000/ ; curl -N http://localhost:5000/clock ; SignalR at /chat.
WebApplicationBuilder builder = WebApplication.CreateSlimBuilder(args);
builder.Services.AddSignalR();
builder.WebHost.UseWhimbrel(); // the additional line

await using WebApplication app = builder.Build();
app.MapGet("/", static () => "Hello from Kestrel on Whimbrel\n");
app.MapGet("/clock", static async context =>
{
    using PeriodicTimer timer = new(TimeSpan.FromSeconds(1));
    while (await timer.WaitForNextTickAsync(context.RequestAborted))
    {
        await context.Response.WriteAsync($"{DateTimeOffset.Now:T}\n");
        await context.Response.Body.FlushAsync();
    }
});
app.MapHub<Chat>("/chat");
await app.RunAsync();

/// <summary>Sends each message to all clients.</summary>
internal sealed class Chat : Hub
{
    public Task Say(string text) => Clients.All.SendAsync("Said", text);
}
