using Chat_Server;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Whimbrel.Hosting;

HostApplicationBuilder builder = Host.CreateApplicationBuilder(
    new HostApplicationBuilderSettings { Args = args, ContentRootPath = AppContext.BaseDirectory });

// Settings of the application, in addition to those of the server. An error in either ends the program before it
// listens.
builder.Services.AddOptions<ChatRoomOptions>().BindConfiguration("Room")
    .Validate(room => room.LongestName is >= 1 and <= 100, "Room:LongestName: 1 to 100")
    .ValidateOnStart();
builder.Services.AddSingleton<ChatRoom>();

// The server's options are in the section Chat of appsettings.json. Sessions get services by their constructor.
builder.Services.AddWhimbrelServer<ChatSession>("Chat");
builder.Services.AddHealthChecks().AddWhimbrelServer("Chat");

// Ctrl-C and SIGTERM stop the host: no new connection is accepted, and existing ones have ten seconds to finish.
builder.Services.Configure<HostOptions>(host => host.ShutdownTimeout = TimeSpan.FromSeconds(10));

await builder.Build().RunAsync();
